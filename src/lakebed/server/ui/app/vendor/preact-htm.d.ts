// What the pages use of the vendored file, for the type checker alone.

export type VNode = any;
export function h(type: any, props?: any, ...children: any[]): VNode;
export function html(strings: TemplateStringsArray, ...values: any[]): VNode;
export function render(node: VNode, parent: Element): void;
export function useState<T>(initial: T | (() => T)): [T, (value: T | ((before: T) => T)) => void];
export function useEffect(effect: () => void | undefined | (() => void), inputs?: any[]): void;
export function useLayoutEffect(effect: () => void | undefined | (() => void), inputs?: any[]): void;
export function useRef<T>(initial: T): { current: T };
export function useMemo<T>(make: () => T, inputs: any[]): T;
export function useCallback<T>(callback: T, inputs: any[]): T;
export function useErrorBoundary(callback?: (error: any) => void): [any, () => void];
