# SPDX-License-Identifier: MIT
"""What every test shares: how hard Hypothesis looks."""

import os

from hypothesis import settings

# No deadline: a slow machine is not a wrong result. HYPOTHESIS_PROFILE=thorough is what `make torture` uses;
# ci repeats the same examples on every run, for bisecting.
settings.register_profile("default", deadline=None, max_examples=100)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
