"""Threads that meet: everybody's number, nobody too early, and what is left when one of them fails."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.kernels.team import Team, part, team_of

MANY = 2 * (os.cpu_count() or 1) + 1
ROUNDS = 30

FORK = """
import os, signal
from ostinato.kernels.team import team_of

def works():
    seen, team = [], team_of(3)
    def work(member):
        team.meet()
        seen.append(member)
        team.meet()
    team.run(work)
    return sorted(seen) == [0, 1, 2]

assert works()
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if works() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert works()
"""


def outcome(call):
    """What a call raised, if anything; a test fails where it would have waited for ever."""
    raised = []

    def caller():
        try:
            call()
        except BaseException as fault:
            raised.append(fault)

    thread = threading.Thread(target=caller, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "it waits for ever"
    return raised


@pytest.mark.parametrize("threads", [1, 2, 3, MANY])
def test_every_member_is_given_its_number_once_and_a_thread_of_its_own(threads):
    team, seen = Team(threads), []
    for _ in range(3):
        seen.clear()
        team.run(lambda member: seen.append((member, threading.get_ident())))
        assert sorted(member for member, _ in seen) == list(range(threads))
        assert len({thread for _, thread in seen}) == threads
        assert (0, threading.get_ident()) in seen


@pytest.mark.parametrize("threads", [1, 2, 3, MANY])
def test_nobody_goes_on_before_all_have_come(threads):
    """Each writes its round, meets, and must see the others' round; the last to come is another one each time."""
    team, rounds, behind = Team(threads), np.zeros(threads, np.int64), []

    def work(member):
        for number in range(1, ROUNDS + 1):
            if number % threads == member:
                for _ in range(200):
                    os.getpid()
            rounds[member] = number
            team.meet()
            if rounds.min() != number or rounds.max() != number:
                behind.append((member, number, rounds.tolist()))
            team.meet()

    team.run(work)
    assert behind == []
    assert rounds.tolist() == [ROUNDS] * threads


@pytest.mark.parametrize("late", [0, 1, 2])
def test_those_who_come_early_wait_for_the_last(late):
    """The last comes when the next one has long been waiting, and nothing may happen before."""
    team, gate, events = Team(3), threading.Event(), []

    def work(member):
        if member == late:
            gate.wait(10)
            events.append("last")
        elif member == (late + 1) % 3:
            threading.Timer(0.05, gate.set).start()
        team.meet()
        events.append("after")

    team.run(work)
    assert events == ["last", "after", "after", "after"]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_in_any_member_is_raised_frees_the_waiting_and_leaves_the_team_usable(failing):
    team = Team(3)

    def fails(member):
        team.meet()
        if member == failing:
            raise ZeroDivisionError(f"member {member}")
        team.meet()

    for _ in range(3):
        (fault,) = outcome(lambda: team.run(fails))
        assert isinstance(fault, ZeroDivisionError)
        assert str(fault) == f"member {failing}"
        seen = []

        def works(member, seen=seen):
            team.meet()
            seen.append(member)
            team.meet()

        assert outcome(lambda works=works: team.run(works)) == []
        assert sorted(seen) == [0, 1, 2]


def test_even_an_exit_in_a_member_reaches_the_caller():
    team = Team(2)

    def leaves(member):
        if member:
            raise SystemExit(3)
        team.meet()

    (fault,) = outcome(lambda: team.run(leaves))
    assert isinstance(fault, SystemExit)


def test_two_callers_take_turns():
    """Both hold the whole team from their first member's beginning to their last one's end."""
    team, log = Team(2), []

    def call(name):
        def work(member):
            log.append(name)
            team.meet()
            log.append(name)

        for _ in range(20):
            team.run(work)

    callers = [threading.Thread(target=call, args=(name,)) for name in "ab"]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    runs = ["".join(log[place : place + 4]) for place in range(0, len(log), 4)]
    assert sorted(runs) == ["aaaa"] * 20 + ["bbbb"] * 20


def test_a_process_has_one_team_of_each_size():
    assert team_of(2) is team_of(2)
    assert team_of(2) is not team_of(3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_after_a_fork_the_child_has_threads_of_its_own_and_the_parent_keeps_its():
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], check=True, timeout=60)


@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 9), st.integers(1, 300))
def test_the_parts_of_a_range_cover_it_once_and_are_cut_at_whole_units(begin, size, members, unit):
    parts = [part(begin, begin + size, member, members, unit) for member in range(members)]
    assert [place for first, last in parts for place in range(first, last)] == list(range(begin, begin + size))
    assert all(begin <= first <= last <= begin + size for first, last in parts)
    assert all((first - begin) % unit == 0 for first, last in parts if first < last)
    units = [-(-(last - first) // unit) for first, last in parts]
    assert max(units) - min(units) <= 1
