"""Block storage under the simulator: what its faults do to a caller."""

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import AlreadyExists, BlockStore, Namespace, StorageUnavailable
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.testing.simulation.block import SimulatedBlock
from lakebed.testing.simulation.simulator import Faults, Simulation

ADDRESS = Namespace.parse("mem://store").address("object")


def create_once(seed: int, faults: Faults) -> tuple[list[str], bool]:
    """What the creator of an object was told, and whether the object is there afterwards."""
    simulation = Simulation(seed, faults)
    shared = SimulatedBlock(simulation, MemoryBlockStore(ThreadRuntime()))
    actor = simulation.actor("ann")
    block = shared.handle(actor)
    answers: list[str] = []

    def create() -> None:
        try:
            block.create(ADDRESS, b"data")
            answers.append("created")
        except StorageUnavailable:
            answers.append("unavailable")

    actor.start(create)
    simulation.run()
    return answers, shared.inner.exists(ADDRESS)


def test_a_lost_reply_leaves_the_object_there_or_not() -> None:
    outcomes = {
        str(create_once(seed, Faults(fail_before=0.3, fail_after=0.3))) for seed in range(60)
    }
    assert outcomes == {
        "(['created'], True)",
        "(['unavailable'], True)",
        "(['unavailable'], False)",
    }


def test_a_killed_caller_gets_no_reply() -> None:
    outcomes = {str(create_once(seed, Faults(kill=0.5))) for seed in range(60)}
    assert outcomes == {"(['created'], True)", "([], True)", "([], False)"}


def test_of_two_creators_one_wins() -> None:
    winners = set()
    for seed in range(30):
        simulation = Simulation(seed)
        shared = SimulatedBlock(simulation, MemoryBlockStore(ThreadRuntime()))
        won: list[str] = []
        for name in ("ann", "bob"):
            actor = simulation.actor(name)
            block = shared.handle(actor)

            def create(name: str = name, won: list[str] = won, block: BlockStore = block) -> None:
                try:
                    block.create(ADDRESS, name.encode())
                    won.append(name)
                except AlreadyExists:
                    assert block.read(ADDRESS) != name.encode()

            actor.start(create)
        simulation.run()
        assert [name.encode() for name in won] == [shared.inner.read(ADDRESS)]
        winners.update(won)
    assert winners == {"ann", "bob"}
