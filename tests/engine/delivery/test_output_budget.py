"""What blocks have become is bounded, and no task waits forever."""

import random

import pytest

from wallaroo.engine.delivery.output_budget import OutputBudget


class Stages:
    """Some stages of tasks, which pass blocks on in any order that could happen, and an egress behind them."""

    def __init__(self, chance, *, stages, tasks, blocks, room):
        self.chance, self.stages, self.tasks, self.blocks, self.room = chance, stages, tasks, blocks, room
        self.window = OutputBudget(room)
        self.window.begin(0)
        self.sizes = {}
        self.waiting = {}
        self.next = {(stage, task): self._first(stage, task) for stage in range(stages) for task in range(tasks)}
        self.passed_on = {}
        self.delivered = 0

    def _first(self, stage, task):
        return task if stage == 0 else 0

    def _step(self, stage):
        # In the first stage, tasks take blocks in turn; further on, each has a share of every block.
        return self.tasks if stage == 0 else 1

    def _has_come(self, stage, block):
        return stage == 0 or all(
            (stage - 1, task, block) in self.passed_on
            for task in ([block % self.tasks] if stage == 1 else range(self.tasks))
        )

    def moves(self):
        """Return what could happen next."""
        found = [
            (stage, task)
            for (stage, task), block in self.next.items()
            if (stage, task) not in self.waiting and block < self.blocks and self._has_come(stage, block)
        ]
        last = self.stages - 1
        tasks = [self.delivered % self.tasks] if last == 0 else range(self.tasks)
        if self.delivered < self.blocks and all((last, task, self.delivered) in self.passed_on for task in tasks):
            found.append(None)
        return found

    def move(self):
        chosen = self.chance.choice(self.moves())
        if chosen is None:
            self.delivered += 1
            self.window.delivered(self.delivered)
        else:
            self._compute(*chosen)

    def _compute(self, stage, task):
        # Small blocks that are there at the same time share a row.
        first = last = self.next[stage, task]
        step = self._step(stage)
        while self.chance.random() < 0.3 and last + step < self.blocks and self._has_come(stage, last + step):
            last += step
        size = self.chance.choice([1, 10, 10, 60, 300])
        self.waiting[stage, task] = True

        def admit():
            del self.waiting[stage, task]
            for block in range(first, last + 1, step):
                self.passed_on[stage, task, block] = 0
            self.passed_on[stage, task, last] = size
            self.next[stage, task] = last + step
            self._check(stage, first)

        self.window.ask(stage, first, last, size, admit)

    def _check(self, stage, first):
        under_way = [size for (of, _, block), size in self.passed_on.items() if of == stage and block >= self.delivered]
        assert sum(under_way) <= self.room or first <= self.delivered


@pytest.mark.parametrize("seed", range(30))
def test_output_in_transit_is_bounded_and_all_of_it_arrives(seed):
    chance = random.Random(seed)
    stages = Stages(
        chance, stages=chance.randint(1, 3), tasks=chance.randint(1, 3), blocks=60, room=chance.choice([1, 50, 200])
    )
    while stages.delivered < stages.blocks:
        assert stages.moves(), "everybody waits"
        stages.move()
    assert not stages.waiting


def test_the_lower_block_is_admitted_first():
    window = OutputBudget(10)
    admitted = []
    for block in (0, 3, 2, 1):
        window.ask(0, block, block, 10, lambda block=block: admitted.append(block))
    for delivered in (1, 2, 3, 4):
        window.delivered(delivered)
    assert admitted == [0, 1, 2, 3]


def test_each_stage_has_room_of_its_own():
    window = OutputBudget(10)
    admitted = []
    for stage in (-1, 0):
        for block in (0, 1):
            window.ask(stage, block, block, 10, lambda at=(stage, block): admitted.append(at))
    assert admitted == [(-1, 0), (0, 0)]


def test_a_new_attempt_has_all_the_room():
    window = OutputBudget(10)
    admitted = []
    window.ask(0, 5, 5, 10, lambda: admitted.append("before"))
    window.begin(3)
    window.ask(0, 4, 4, 10, lambda: admitted.append("after"))
    assert admitted == ["before", "after"]
