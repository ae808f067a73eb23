"""What Ray's AsyncHyperBandScheduler decides on random sequences of reports: writes asha.inc beside this file, for
scheduler_test.cc.

Run it with a Python that has ray 2.59, when a case is added:  python make_asha.py

Left out is what we do differently, as scheduler.h says: NaN, and sizes where rounding loses a rung.
"""

import random
import types
from pathlib import Path

from ray.tune.schedulers import AsyncHyperBandScheduler

CASES = 300
random.seed(20)


def one_case():
    """Options, and a list of events (trial, time, value, decision); a time of -1 is the end of a trial."""
    factor = random.choice([2, 3, 4, 1.5])
    grace = random.choice([1, 1, 2, 5])
    max_t = random.choice([7, 10, 20, 50])
    mode = random.choice(["min", "max"])
    scheduler = AsyncHyperBandScheduler(metric="m", mode=mode, max_t=max_t, grace_period=grace,
                                        reduction_factor=factor)
    step = random.choice([1, 1, 1, 3])
    time, last, events = {}, {}, []
    alive = list(range(random.randint(2, 12)))
    trials = {}
    for number in alive:
        trials[number] = types.SimpleNamespace(trial_id=str(number))
        scheduler.on_trial_add(None, trials[number])
        time[number] = 0
    while alive and len(events) < 120:
        number = random.choice(alive)
        if time[number] > 0 and random.random() < 0.03:
            scheduler.on_trial_complete(None, trials[number], last[number])
            events.append((number, -1, 0, 0))
            alive.remove(number)
            continue
        time[number] += random.randint(1, step)
        value = random.randint(0, 1000) / 8
        last[number] = {"training_iteration": time[number], "m": value}
        stop = scheduler.on_trial_result(None, trials[number], last[number]) == "STOP"
        events.append((number, time[number], value, int(stop)))
        if stop:
            alive.remove(number)
    return factor, grace, max_t, mode, events


def main():
    lines = ["// Made by make_asha.py with ray 2.59.0."]
    for _ in range(CASES):
        factor, grace, max_t, mode, events = one_case()
        listed = " ".join(f"{n},{t},{v:g},{s}" for n, t, v, s in events)
        lines.append(f'"{factor} {grace} {max_t} {mode} {listed}",')
    Path(__file__).with_name("asha.inc").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
