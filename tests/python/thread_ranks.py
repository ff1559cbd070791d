"""Thread ranks that stay, for many small cases one after the other."""
import itertools
import queue
import threading

import torch

from argosy_torch import dtensor as dt

_ops = torch.ops.argosy
_names = itertools.count()
_NO_ANSWER = object()

# A wait of one rank for another ends after this many seconds; once a rank has
# come to its end, the others have so long to do the same.
TIMEOUT = 20
GRACE = 2


class ThreadRanks:
    """Runs functions on all ranks of a world at once. A world in which ranks
    went different ways is given up for a new one."""

    def __init__(self, mesh):
        self.mesh = dt.ProcessMesh(mesh)
        size = self.size = len(self.mesh.process_ids)
        self.answers = queue.SimpleQueue()
        self.tasks = [queue.SimpleQueue() for _ in range(size)]
        for rank in range(size):
            threading.Thread(target=self._serve, args=(rank,), daemon=True).start()
        self._join()

    def run(self, function):
        """What function(rank) returns on each rank, or the error it raises."""
        outcomes = self._run_all(function)
        if any(isinstance(outcome, Exception) for outcome in outcomes):
            self._join()
        return outcomes

    def _serve(self, rank):
        while True:
            task = self.tasks[rank].get()
            try:
                answer = task(rank)
            except Exception as error:
                answer = error
            if answer is not _NO_ANSWER:
                self.answers.put((rank, answer))

    def _join(self):
        name = f"thread-ranks-{next(_names)}"

        def join(rank):
            _ops.leave_thread_ranks()
            _ops.join_thread_ranks(name, rank, self.size, TIMEOUT)
        for outcome in self._run_all(join):
            if isinstance(outcome, Exception):
                raise outcome
        self.name = name

    def _run_all(self, function):
        for tasks in self.tasks:
            tasks.put(function)
        outcomes = [None] * self.size
        waiting = set(range(self.size))
        seconds = None
        while waiting:
            try:
                rank, outcomes[rank] = self.answers.get(timeout=seconds)
            except queue.Empty:
                self._abort(next(rank for rank in range(self.size) if rank not in waiting))
                seconds = None
                continue
            waiting.discard(rank)
            if isinstance(outcomes[rank], Exception):
                seconds = GRACE
        return outcomes

    def _abort(self, rank):
        def abort(_):
            _ops.abort_thread_ranks(self.name, "another rank has ended")
            return _NO_ANSWER
        self.tasks[rank].put(abort)
