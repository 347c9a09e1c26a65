"""Random inputs for the rules of garbage, to compare those who apply them."""

import random
from dataclasses import replace

from lakebed.formats.object_paths import ObjectPath, new_object_uid, new_partition
from lakebed.reclaim.collector import rules
from lakebed.reclaim.collector.rules import Judged, ObservationTimes, ScannedObject, State, Verdict

LOOK = ObservationTimes(
    began_us=900, ended_us=1000, cutoff_us=500, closed_before_us=300, gap_us=100
)


def stored(draw: random.Random, number: int) -> ScannedObject:
    made_us = draw.randint(0, 999)
    return ScannedObject(
        path_of(number, made_us), draw.randint(0, 9), draw.randint(0, 999), made_us
    )


def path_of(number: int, made_us: int) -> str:
    partition = new_partition(made_us, bytes(6))
    return str(ObjectPath("a0", "b", partition, new_object_uid(number, bytes(10))))


def state_of(draw: random.Random, objects: list[ScannedObject]) -> State:
    chosen = draw.sample(objects, len(objects) // 2)
    judged = [_judged(draw, one) for one in chosen]
    return State(
        repository_uids=frozenset({"a0"}),
        began_us=0,
        closed_before_us=draw.randint(0, 400),
        commits=frozenset(),
        objects={one.stored.path: one for one in judged},
    )


def _judged(draw: random.Random, one: ScannedObject) -> Judged:
    verdict = draw.choice(list(Verdict))
    found = draw.randint(700, 1100) if verdict is Verdict.CANDIDATE else None
    return Judged(one, verdict, found)


def row(judged: Judged) -> tuple[object, ...]:
    one = judged.stored
    return (
        one.path,
        one.size,
        one.born_us,
        one.made_us,
        judged.verdict.value,
        judged.found_us or 0,
    )


class RandomLook:
    """A look at 600 objects, half of which a state knows, and what the rules say of them."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        objects = [stored(draw, number) for number in range(600)]
        unseen = [path_of(1000 + number, draw.randint(0, 999)) for number in range(50)]
        everything = [one.path for one in objects] + [*unseen, "repos/a0/branches/b/p/none"]
        self.committed, self.uncommitted = (draw.choices(everything, k=200) for _ in range(2))
        self.committed.append(f"{path_of(2000, 5)}\n")  # not a path of ours, so not looked for
        self.state = state_of(draw, objects)
        self.old = draw.choices(everything, k=200)
        self.listed = [one for one in objects if not rules.is_closed(one, self.state)]
        self.saved = [row(one) for one in self.state.objects.values()]
        self.judged = list(
            rules.judge(
                rules.observed_objects(self.state, self.listed),
                committed={*self.committed, *rules.saved_commit_referenced(self.state)},
                uncommitted=set(self.uncommitted),
                state=self.state,
                times=LOOK,
            )
        )
        assert {one.verdict for one in self.judged} == set(Verdict)

    @property
    def rows(self) -> list[tuple[object, ...]]:
        return [row(one) for one in self.judged]

    @property
    def due(self) -> set[str]:
        found = {one.stored.path for one in rules.due(self.judged, LOOK)}
        assert 0 < len(found) < len(self.judged)
        return found

    @property
    def freed(self) -> set[str]:
        found = {one.stored.path for one in rules.freed(self.judged, set(self.old))}
        assert 0 < len(found) < len(self.judged)
        return found

    @property
    def remembered(self) -> set[str]:
        after = replace(self.state, closed_before_us=LOOK.closed_before_us)
        return {one.stored.path for one in self.judged if rules.remembered(one, after)}
