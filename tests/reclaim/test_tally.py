from lakebed.reclaim.collector.executors.read import Tally


def test_only_what_was_done_since_the_step_began_is_counted() -> None:
    tally = Tally()
    tally.follow(lambda: 3)
    tally.begin()
    assert str(tally) == ""
    tally.follow(lambda: 2)  # another run in the same process, with a counter of its own
    tally.add(5)
    assert str(tally).startswith("7 objects, ")
