"""The chaos run: a careful client, faults by a seed, and a checker that believes the simulator's record."""
