# SPDX-License-Identifier: MIT
"""A leader of a NATS cluster is cut off from the others, with clients on both sides."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.routes.servers import processes

IN_A_NETWORK = ["unshare", "-rnm", "--fork", "--kill-child"]


@pytest.fixture
def can_be_cut():
    """See that networks can be made: that needs iproute2, and a system that lets users have namespaces."""
    program = shutil.which("ip", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    making = (
        subprocess.run([*IN_A_NETWORK, "true"], capture_output=True, check=False) if shutil.which("unshare") else None
    )
    if program is None or making is None:
        if os.environ.get("CI"):
            pytest.fail("there is no ip or no unshare: install iproute2 and util-linux")
        pytest.skip("NOT SHOWN HERE: a partition of a NATS cluster. There is no ip (iproute2) or no unshare")
    if making.returncode:  # a container may forbid it, in CI too
        said = making.stderr.decode(errors="replace").strip()
        pytest.skip(f"NOT SHOWN HERE: a partition of a NATS cluster. The system allows no network of our own: {said}")
    try:
        processes.nats_program()
    except processes.NoServer as error:
        pytest.skip(f"NOT SHOWN HERE: a partition of a NATS cluster. {error}")


@pytest.mark.torture
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("can_be_cut")
def test_nothing_that_either_side_of_a_partition_confirms_is_lost():
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    played = subprocess.run(
        [*IN_A_NETWORK, sys.executable, "-m", "tests.scenarios.nats_partition"],
        capture_output=True,
        check=False,
        env=os.environ | {"PATH": path},
        timeout=300,
    )
    assert played.returncode == 0, played.stderr.decode(errors="replace")[-4_000:]
    counted = json.loads(played.stdout)
    print(counted)
    assert (counted["missing"], counted["twice"], counted["unasked"]) == ([], [], [])
    assert counted["by the majority while the leader was cut off"] > 0, "the others go on"
    assert counted["seen by one program only"] == []
