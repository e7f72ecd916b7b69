# SPDX-License-Identifier: MIT
"""``redrive serve`` as a process of its own: it starts, answers, and ends without a word."""

import signal
import socket

import httpx
import pytest

from tests.serving import address, ended, ready, serving


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/served.db"
    url, schema = request.getfixturevalue("postgres_url"), request.getfixturevalue("emptied_schema")
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_it_answers_until_a_signal_and_ends_without_a_word(tmp_path, url, stop):
    with serving("--database", url, "--no-routes", "--no-pipelines", cwd=tmp_path) as process:
        base = address(process)
        assert ready(base).json() == {"status": "ready", "missing": []}
        assert httpx.put(f"{base}/api/v1/queues/orders", json={}).status_code == 200
        assert [each["name"] for each in httpx.get(f"{base}/api/v1/queues").json()] == ["orders"]
        process.send_signal(stop)
        assert ended(process) == (0, "", "")


def test_two_of_them_share_a_database(tmp_path, postgres_url, emptied_schema):
    url = f"{postgres_url}{'&' if '?' in postgres_url else '?'}schema={emptied_schema}"
    options = ("--database", url, "--no-routes", "--no-pipelines")
    with serving(*options, cwd=tmp_path) as one, serving(*options, cwd=tmp_path) as other:
        first, second = address(one), address(other)
        ready(first), ready(second)
        assert httpx.put(f"{first}/api/v1/queues/orders", json={}).status_code == 200
        assert httpx.get(f"{second}/api/v1/queues/orders").status_code == 200
        one.kill()
        assert httpx.get(f"{second}/api/v1/queues/orders").status_code == 200
        other.send_signal(signal.SIGTERM)
        assert ended(other)[0] == 0


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with serving("--listen", listen, cwd=tmp_path) as process:
            status, out, err = ended(process)
    assert (status, out) == (2, "")
    problem = "must be an address of this machine that no program listens at: Address already in use"
    assert err == f"error: listen='{listen}': {problem}\n"


def test_an_address_for_all_machines_is_refused(tmp_path):
    with serving("--listen", "0.0.0.0:0", cwd=tmp_path) as process:
        status, out, err = ended(process)
    assert (status, out) == (2, "")
    assert "can be reached by other machines" in err


def test_a_mistake_in_the_file_is_named_with_its_line(tmp_path):
    (tmp_path / "redrive.toml").write_text("[server]\nroutse = false\n")
    with serving(cwd=tmp_path) as process:
        status, _, err = ended(process)
    assert status == 2
    assert err.startswith("error: redrive.toml, line 2: the server has no setting 'routse'")


def test_the_file_says_what_the_options_do_not(tmp_path):
    (tmp_path / "redrive.toml").write_text('[server]\ndatabase = "sqlite:///of-file.db"\nlisten = "127.0.0.1:1"\n')
    with serving("--no-routes", "--no-pipelines", cwd=tmp_path) as process:
        ready(address(process))
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0
    assert (tmp_path / "of-file.db").exists()


def test_it_waits_for_a_database_that_is_away_and_says_so(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with serving("--database", f"postgresql://nobody@127.0.0.1:{port}/none", cwd=tmp_path) as process:
        base = address(process)
        assert httpx.get(f"{base}/live").json() == {"status": "live"}
        answer = httpx.get(f"{base}/ready")
        assert answer.status_code == 503
        assert answer.json()["missing"][0]["what"] == "store"
        refused = httpx.get(f"{base}/api/v1/queues")
        assert (refused.status_code, refused.json()["code"]) == (503, "engine-unavailable")
        process.send_signal(signal.SIGTERM)
        status, _, err = ended(process)
    assert status == 0
    assert "the store does not answer, and is asked again each second" in err
