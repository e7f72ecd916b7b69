# SPDX-License-Identifier: MIT
"""Reading policy files: what may be written, and the errors of an invalid file."""
# ruff: noqa: E501 - one wrong file a line, so that they can be compared

import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import PolicyFileError, UnknownPolicy
from redrive.retry import Adaptive, Delays, Exponential, Fixed, Linear, Policy
from redrive.retry.policy_file import parse_toml, parse_xml

THE_SOURCE_DOCUMENTS_OWN = """\
<RetryPolicyConfiguration defaultRetryStrategy="Fixed Interval Retry Strategy">
    <linearInterval name="Fixed Interval Retry Strategy"
\tretryInterval="00:00:01" maxRetryCount="10" />
    <exponentialBackoff name="Backoff Retry Strategy" minBackoff="00:00:01"
        maxBackoff="00:00:30" deltaBackoff="00:00:10" maxRetryCount="10"
        fastFirst="false"/>
</RetryPolicyConfiguration>
"""


def toml(text, source=None):
    return parse_toml(textwrap.dedent(text), source)


def policy(settings):
    """The one policy that a table of these settings makes."""
    return toml(f"[policies.p]\n{textwrap.dedent(settings)}").policies["p"]["policy"]


def error_of(parse, text):
    with pytest.raises(PolicyFileError) as caught:
        parse(textwrap.dedent(text))
    assert caught.value.__cause__ is None
    return caught.value


# --- TOML -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", Exponential()),
        ('kind = "exponential"', Exponential()),
        (
            'min = "1s"\ndelta = "10s"\nmax = 30\njitter = "full"\nfast_first = true\nmax_attempts = 3',
            Exponential(min=1, delta=10, max=30, jitter="full", fast_first=True, max_attempts=3),
        ),
        ('kind = "linear"\nstart = "2s"\nstep = "500ms"\nmax = "1m"', Linear(2, 0.5, max=60)),
        ('kind = "fixed"\ndelay = 0.25\njitter = 0', Fixed(0.25, jitter=0)),
        ('kind = "delays"\ndelays = [0, "1s", "00:00:05"]', Delays([0, 1, 5])),
        ('kind = "adaptive"', Adaptive()),
        (
            'kind = "adaptive"\nmax = "1m"\njitter = 0.1\nstatuses = [429, 503]\nmax_attempts = 9',
            Adaptive(max=60, jitter=0.1, statuses={429, 503}, max_attempts=9),
        ),
    ],
    ids=repr,
)
def test_every_kind_of_policy_can_be_written(settings, expected):
    assert policy(settings) == expected


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        *(("100", 100.0), ("0.1", 0.1), ('"100ms"', 0.1), ('"1.5s"', 1.5), ('"2m"', 120.0), ('"1h"', 3_600.0)),
        *(('"1d"', 86_400.0), ('"00:00:30"', 30.0), ('"1.00:00:00"', 86_400.0), ("1_000", 1_000.0)),
    ],
)
def test_every_spelling_of_a_duration_is_understood(written, seconds):
    assert policy(f'kind = "fixed"\ndelay = {written}').delay == pytest.approx(seconds)


def test_max_retries_is_one_less_than_max_attempts():
    assert policy("max_retries = 0").max_attempts == 1
    assert policy("max_retries = 9").max_attempts == 10
    assert policy("max_attempts = 9").max_attempts == 9


def test_adaptive_policy_follows_another_of_the_file():
    policies = toml("""
        default = "polite"
        [policies.polite]
        kind = "adaptive"
        fallback = "steady"
        [policies.steady]
        kind = "fixed"
        delay = "2s"
    """)
    assert policies.policies["polite"]["policy"] == Adaptive(Fixed(2))


FULL = """\
default = "standard"

[policies.standard]
max_attempts = 4
deadline = "20s"
breaker = "db"

[policies.patient]
kind = "fixed"
delay = "10s"
budget = "shared"
when_open = "wait"

[operations.search]
policy = "patient"
deadline = "2s"
attempt_timeout = "500ms"

[operations."GET /orders"]
max_retries = 1
breaker = "web"

[breakers.db]
failures = 3
open_for = "10s"

[breakers.web]
failure_rate = 0.5
window = "1m"

[budgets.shared]
ratio = 0.1
burst = 5
"""


def test_operation_without_an_entry_gets_the_default_policy():
    assert parse_toml(FULL).settings_for("whatever") == {
        "policy": Exponential(max_attempts=4),
        "deadline": 20.0,
        "breaker": "db",
    }


def test_operation_overrides_its_policy():
    assert parse_toml(FULL).settings_for("search") == {
        "policy": Fixed(10),
        "deadline": 2.0,
        "attempt_timeout": 0.5,
        "budget": "shared",
        "when_open": "wait",
    }


def test_operation_without_a_policy_overrides_the_default_one():
    assert parse_toml(FULL).settings_for("GET /orders") == {
        "policy": Exponential(max_attempts=4),
        "deadline": 20.0,
        "max_attempts": 2,
        "breaker": "web",
    }


def test_code_may_choose_another_policy_and_keeps_the_operations_overrides():
    settings = parse_toml(FULL).settings_for("search", "standard")
    assert (settings["policy"], settings["deadline"]) == (Exponential(max_attempts=4), 2.0)


def test_policy_that_nobody_defined_is_named_with_those_that_exist():
    with pytest.raises(
        UnknownPolicy, match="no policy is called 'fast'; the file defines: standard, patient"
    ) as caught:
        parse_toml(FULL).settings_for("search", "fast")
    assert (caught.value.name, caught.value.known) == ("fast", ("standard", "patient"))
    assert isinstance(caught.value, LookupError)


def test_breakers_and_budgets_are_read_as_arguments():
    policies = parse_toml(FULL)
    assert policies.breakers == {"db": {"failures": 3, "open_for": 10.0}, "web": {"failure_rate": 0.5, "window": 60.0}}
    assert policies.budgets == {"shared": {"ratio": 0.1, "burst": 5}}


def test_the_only_policy_is_the_default():
    assert toml("[policies.only]").default == "only"


# --- wrong TOML -------------------------------------------------------------------------------------------------------

WRONG_TOML = {
    # what is wrong: (the file, the line, parts of the message)
    "syntax": ("[policies.a]\nmin = 1s\n", 2, ["this is not TOML"]),
    "syntax at the end": ("[policies.a]\ndelays = [1,\n", 3, ["this is not TOML"]),
    "unclosed text": ('[policies.a]\nkind = "fixed\ndelay = 1\n', 2, ["this is not TOML"]),
    "key twice": ("[policies.a]\nmin = 1\nmin = 2\n", 3, ["this is not TOML: Cannot overwrite a value"]),
    "table twice": ("[policies.a]\n[policies.b]\n\n[policies.a]\n", 4, ["this is not TOML: Cannot declare"]),
    "nothing": ("", 1, ["default must name one of the policies", "write [policies.standard]"]),
    "only a comment": ("# to be written\n", 1, ["write [policies.standard]"]),
    "no default": ("[policies.a]\n[policies.b]\n", 1, ["default must name one of the policies: a, b"]),
    "unknown default": ('\ndefault = "c"\n[policies.a]\n', 2, ["default", "must name one of the policies: a"]),
    "default of a wrong type": ("default = []\n[policies.a]\n", 1, ["must name one of the policies: a"]),
    "unknown section": ("[policies.a]\n\n[operation.x]\n", 3, ["unknown setting 'operation'; did you mean 'operations'?"]),
    "policies no table": ("policies = 5\n", 1, ["policies: must be a table of tables: write [policies.some-name]"]),
    "policies a list": ("[[policies]]\n", 1, ["write [policies.some-name]"]),
    "setting at the wrong level": ('[policies]\nkind = "fixed"\n', 1, ["write [policies.some-name]"]),
    "unknown kind": ('[policies.a]\nmin = 1\nkind = "expo"\n', 3, ["policies.a: unknown kind 'expo'", "exponential, linear"]),
    "kind of a wrong type": ("[policies.a]\nkind = []\n", 2, ["unknown kind []"]),
    "misspelt setting": ("[policies.a]\n\nfastfirst = true\n", 3, ["unknown setting 'fastfirst'; did you mean 'fast_first'?"]),
    "misspelt retries": ("[policies.a]\nmax_retrys = 3\n", 2, ["did you mean 'max_retries'?"]),
    "foreign setting": ('[policies.a]\nkind = "fixed"\nzzz = 1\n', 3, ["unknown setting 'zzz'; there are:", "delay"]),
    "setting of another kind": ('[policies.a]\nkind = "fixed"\nmin = 1\n', 3, ["unknown setting 'min'"]),
    "max below min": ('[policies.a]\nmin = "10s"\nmax = "5s"\n', 3, ["max=5.0: must be at least min (10 s)"]),
    "min above the default max": ('[policies.a]\nmin = "2m"\n', 1, ["must be at least min (120 s)"]),
    "min of zero": ("[policies.a]\nmin = 0\n", 2, ["use fast_first=True"]),
    "negative": ('[policies.a]\nmin = "-1s"\n', 2, ["min=-1.0: must be more than 0"]),
    "not a number": ("[policies.a]\nmin = nan\n", 2, ["min=nan"]),
    "infinite": ("[policies.a]\nmax = inf\n", 2, ["max=inf"]),
    "huge": (f"[policies.a]\nmin = 1{'0' * 400}\n", 2, ["min=1000"]),
    "too many digits": (f"[policies.a]\nmin = 1{'0' * 5_000}\n", 1, ["this is not TOML"]),
    "too deep": (f"a = {'[' * 50_000}", 1, ["this is not TOML"]),
    "no duration": ('[policies.a]\nmin = "1 week"\n', 2, ["min='1 week': write seconds as a number, or", '"100ms"']),
    "duration of a wrong type": ("[policies.a]\nmin = true\n", 2, ["min=True: write seconds as a number"]),
    "list of no durations": ('[policies.a]\nkind = "delays"\ndelays = [1, "x"]\n', 3, ["delays='x': write seconds"]),
    "negative in a list": ('[policies.a]\nkind = "delays"\ndelays = [1, -2]\n', 3, ["delays[1]=-2.0: must be 0"]),
    "no list": ('[policies.a]\nkind = "delays"\ndelays = 5\n', 3, ["delays=5: must be a list of at least one"]),
    "no jitter": ('[policies.a]\njitter = "20%"\n', 2, ["jitter='20%'", "share from 0 to 1"]),
    "no flag": ('[policies.a]\nfast_first = "false"\n', 2, ["fast_first='false': must be True or False"]),
    "no attempts": ("[policies.a]\nmax_attempts = 0\n", 2, ["max_attempts=0: must be a whole number from 1"]),
    "negative retries": ("[policies.a]\nmax_retries = -1\n", 2, ["must be a whole number from 0"]),
    "fractional retries": ("[policies.a]\nmax_retries = 1.5\n", 2, ["must be a whole number from 0"]),
    "flag as retries": ("[policies.a]\nmax_retries = true\n", 2, ["must be a whole number from 0"]),
    "both": ("[policies.a]\nmax_attempts = 3\nmax_retries = 2\n", 3, ["write max_retries or max_attempts, not both"]),
    "no statuses": ('[policies.a]\nkind = "adaptive"\nstatuses = 503\n', 3, ["statuses=503: must be a list of HTTP"]),
    "texts as statuses": ('[policies.a]\nkind = "adaptive"\nstatuses = ["503"]\n', 3, ["must be a list of HTTP statuses"]),
    "fallback unknown": ('[policies.a]\nkind = "adaptive"\nfallback = "b"\n', 3, ["policies.a: must be the name of a policy"]),
    "fallback adaptive": (
        '[policies.a]\nkind = "adaptive"\nfallback = "b"\n[policies.b]\nkind = "adaptive"\n',
        3,
        ["that is not adaptive itself"],
    ),
    "fallback to itself": ('[policies.a]\nkind = "adaptive"\nfallback = "a"\n', 3, ["not adaptive itself"]),
    "fallback of a wrong type": ('[policies.a]\nkind = "adaptive"\nfallback = ["a"]\n', 3, ["must be the name of a policy"]),
    "fallback wrong itself": (
        'default = "a"\n[policies.a]\nkind = "adaptive"\nfallback = "b"\n[policies.b]\nmin = 0\n',
        6,
        ["policies.b: min=0.0"],
    ),
    "operation's policy": ('[policies.a]\n[operations.x]\npolicy = "b"\n', 3, ["operations.x: no policy is called 'b'; there are: a"]),
    "operation's policy of a wrong type": ("[policies.a]\n[operations.x]\npolicy = []\n", 3, ["no policy is called []"]),
    "operation's setting": ("[policies.a]\n[operations.x]\nmin = 1\n", 3, ["unknown setting 'min'; there are: policy, max_attempts"]),
    "operation's attempts": ("[policies.a]\n[operations.x]\nmax_attempts = 0\n", 3, ["max_attempts=0: must be a whole number"]),
    "operation's retries": ("[policies.a]\n[operations.x]\nmax_retries = -1\n", 3, ["must be a whole number from 0"]),
    "operation's misspelt policy": ('[policies.a]\n[operations.x]\npolcy = "a"\n', 3, ["did you mean 'policy'?"]),
    "deadline of zero": ("[policies.a]\ndeadline = 0\n", 2, ["deadline=0.0: must be more than 0"]),
    "attempt timeout": ('[policies.a]\n[operations."a b"]\nattempt_timeout = "x"\n', 3, ["attempt_timeout='x': write seconds"]),
    "when open": ('[policies.a]\nwhen_open = "panic"\n', 2, ["when_open='panic': must be \"fail\" or \"wait\""]),
    "unknown breaker": ('[policies.a]\nbreaker = "db"\n', 2, ["no breaker is called 'db'; define it as [breakers.db]"]),
    "breaker of a wrong type": ("[policies.a]\nbreaker = {}\n", 2, ["no breaker is called {}"]),
    "unknown budget": ('[policies.a]\n[operations.x]\nbudget = "b"\n', 3, ["no budget is called 'b'; define it as [budgets.b]"]),
    "breaker's setting": ("[policies.a]\n[breakers.db]\nfailure = 3\n", 3, ["breakers.db: unknown setting 'failure'; did you mean"]),
    "breaker's value": ("[policies.a]\n[breakers.db]\nfailures = 0\n", 3, ["failures=0: must be a whole number from 1"]),
    "breaker's duration": ('[policies.a]\n[breakers.db]\nopen_for = "x"\n', 3, ["open_for='x': write seconds"]),
    "breaker's name": ('[policies.a]\n[breakers.db]\nname = "x"\n', 3, ["unknown setting 'name'"]),
    "budget's setting": ("[policies.a]\n[budgets.b]\nrate = 3\n", 3, ["budgets.b: unknown setting 'rate'; did you mean 'ratio'?"]),
    "budget's value": ("[policies.a]\n[budgets.b]\nratio = 3\n", 3, ["ratio=3: must be a number from 0 to 1"]),
    "inline table": ("[policies]\na = { min = 0 }\n", 2, ["policies.a: min=0.0"]),
    "dotted key": ("\npolicies.a.min = 0\n", 2, ["policies.a: min=0.0"]),
    "after a text that looks like settings": (
        '[policies.a]\nkind = """\nmin = 5"""\nmin = 1\n', 2, ["unknown kind 'min = 5'"],
    ),
    "after a comment with a strange line break": ("# one\u2028two\x85three\n[policies.a]\nmin = 0\n", 3, ["min=0.0"]),
    "after a key with an equals sign": ('[policies."a=b"]\n"mi=n" = 1\nmin = 0\n', 1, ["unknown setting 'mi=n'"]),
    "with Windows line ends": ("[policies.a]\r\nkind = 'fixed'\r\ndelay = -1\r\n", 3, ["delay=-1.0: must be 0"]),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_TOML)
def test_wrong_toml_names_the_line_and_the_fix(case):
    text, line, parts = WRONG_TOML[case]
    with pytest.raises(PolicyFileError) as caught:
        parse_toml(text)
    for part in parts:
        assert part in caught.value.problem
    assert caught.value.line == line
    assert str(caught.value) == f"policies, line {line}: {caught.value.problem}"
    assert len(str(caught.value)) < 500


def test_error_names_its_file():
    with pytest.raises(PolicyFileError, match=r"^/etc/retry\.toml, line 2: policies\.a: min=0\.0"):
        parse_toml("[policies.a]\nmin = 0", Path("/etc/retry.toml"))


@given(st.text(max_size=200))
def test_any_text_is_policies_or_an_error_with_a_line_of_it(text):
    for parse in (parse_toml, parse_xml):
        try:
            parse(text)
        except PolicyFileError as error:
            assert 1 <= error.line <= text.count("\n") + text.count("\r") + 1  # noqa: PT017 - no error is fine as well


values = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["a", "x", "1s", "", "fail", "fixed", "adaptive", "full"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=3,
)
keys = st.sampled_from([
    *("kind", "min", "delta", "max", "start", "step", "delay", "delays", "jitter", "fast_first", "max_attempts", "policy"),
    *("max_retries", "fallback", "statuses", "deadline", "attempt_timeout", "breaker", "budget", "when_open", "failures"),
    *("failure_rate", "window", "min_calls", "open_for", "probes", "ratio", "per_second", "burst"),
])  # fmt: skip
tables = st.dictionaries(keys, values, max_size=4)


def as_toml(value):
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            return "{" + ", ".join(f"{key} = {as_toml(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(as_toml, value)) + "]"
        case str():
            return f'"{value}"'
    return repr(value)


@given(tables, tables, tables, tables)
def test_any_settings_are_policies_or_an_error_that_names_a_line(policy_, operation, breaker, budget):
    sections = {"policies.a": policy_, "operations.x": operation, "breakers.a": breaker, "budgets.a": budget}
    text = "\n".join(
        line
        for name, table in sections.items()
        for line in (f"[{name}]", *(f"{k} = {as_toml(v)}" for k, v in table.items()))
    )
    try:
        policies = parse_toml(text)
    except PolicyFileError as error:
        assert 1 <= error.line <= text.count("\n") + 1  # noqa: PT017 - no error is fine as well
    else:
        assert isinstance(policies.settings_for("x")["policy"], Policy)


# --- XML --------------------------------------------------------------------------------------------------------------


def test_the_source_documents_own_file_is_read():
    policies = parse_xml(THE_SOURCE_DOCUMENTS_OWN)
    assert policies.default == "Fixed Interval Retry Strategy"
    assert {name: settings["policy"] for name, settings in policies.policies.items()} == {
        "Fixed Interval Retry Strategy": Fixed(1, max_attempts=11),
        "Backoff Retry Strategy": Exponential(min=1, delta=10, max=30, max_attempts=11),
    }


def xml(inside, attributes=""):
    return parse_xml(f"<RetryPolicyConfiguration {attributes}>\n{inside}\n</RetryPolicyConfiguration>")


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ('<linearInterval name="p" deltaBackoff="00:00:02"/>', Fixed(2)),
        ('<fixedInterval name="p" retryInterval="00:00:02" firstFastRetry="TRUE"/>', Fixed(2, fast_first=True)),
        ('<incremental name="p" initialInterval="00:00:01" retryIncrement="00:00:02" maxRetryCount="3"/>',
         Linear(1, 2, max_attempts=4)),
        ('<exponentialBackoff name="p" minBackoff="100ms" fastFirst="true"/>', Exponential(min=0.1, fast_first=True)),
        ('<exponentialBackoff name="p" maxRetryCount="0"/>', Exponential(max_attempts=1)),
    ],
    ids=repr,
)  # fmt: skip
def test_every_strategy_of_the_xml_vocabulary_is_understood(element, expected):
    policies = xml(element)
    assert policies.policies["p"]["policy"] == expected
    assert policies.default == "p"


def test_xml_may_declare_namespaces():
    assert xml('<linearInterval name="p"/>', 'xmlns="urn:retry" xmlns:x="urn:x"').default == "p"


def test_xml_may_have_a_declaration_comments_and_a_byte_order_mark():
    text = '\ufeff<?xml version="1.0" encoding="utf-8"?>\n<!-- ours -->\n' + THE_SOURCE_DOCUMENTS_OWN
    assert parse_xml(text).default == "Fixed Interval Retry Strategy"


BILLION_LAUGHS = (
    '<?xml version="1.0"?>\n<!DOCTYPE lolz [\n<!ENTITY lol "lol">\n'
    + "".join(f'<!ENTITY lol{n} "{f"&lol{n - 1};" * 10}">\n' for n in range(2, 12))
    + "]>\n<RetryPolicyConfiguration>&lol11;</RetryPolicyConfiguration>"
)
EXTERNAL = (
    '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<RetryPolicyConfiguration>&x;</RetryPolicyConfiguration>'
)

WRONG_XML = {
    # what is wrong: (the file, the line, parts of the message)
    "nothing": ("", 1, ["this is not XML: no element found"]),
    "no xml": ("[policies.a]", 1, ["this is not XML: syntax error"]),
    "not closed": ("<RetryPolicyConfiguration>\n\n", 3, ["this is not XML: no element found"]),
    "wrong end": ("<RetryPolicyConfiguration>\n</Retry>", 2, ["this is not XML: mismatched tag"]),
    "attribute twice": ('<RetryPolicyConfiguration>\n<linearInterval name="a" name="b"/>', 2, ["duplicate attribute"]),
    "another root": ("<configuration/>", 1, ["<configuration> should be <RetryPolicyConfiguration>"]),
    "no strategies": ("<RetryPolicyConfiguration/>", 1, ["default must name one of the policies"]),
    "unknown default": ('\n<RetryPolicyConfiguration defaultRetryStrategy="x"><linearInterval name="a"/></RetryPolicyConfiguration>',
                        2, ["must name one of the policies: a"]),
    "unknown root attribute": ('<RetryPolicyConfiguration\n defaultStrategy="a"><linearInterval name="a"/></RetryPolicyConfiguration>',
                               1, ["unknown attribute 'defaultStrategy'", "defaultRetryStrategy"]),
    "unknown element": ('<RetryPolicyConfiguration>\n\n<randomBackoff name="a"/>', 3,
                        ["<randomBackoff> is no strategy; there are: linearInterval, fixedInterval, incremental"]),
    "unknown attribute": ('<RetryPolicyConfiguration>\n<linearInterval name="a" interval="1"/>', 2,
                          ["unknown attribute 'interval'; there are: name, retryInterval, deltaBackoff, maxRetryCount"]),
    "attribute of another kind": ('<RetryPolicyConfiguration>\n<linearInterval name="a" minBackoff="1"/>', 2,
                                  ["unknown attribute 'minBackoff'"]),
    "no name": ("<RetryPolicyConfiguration>\n<linearInterval/>", 2, ['<linearInterval> needs a name="..."']),
    "same name": ('<RetryPolicyConfiguration>\n<linearInterval name="a"/>\n<incremental name="a"/>', 3,
                  ["two strategies are called 'a'"]),
    "no flag": ('<RetryPolicyConfiguration>\n<linearInterval name="a" fastFirst="yes"/>', 2, ['fastFirst is "true" or "false"']),
    "no count": ('<RetryPolicyConfiguration>\n<linearInterval name="a" maxRetryCount="ten"/></RetryPolicyConfiguration>', 2,
                 ["policies.a: must be a whole number from 0"]),
    "negative count": ('<RetryPolicyConfiguration>\n<linearInterval name="a" maxRetryCount="-1"/></RetryPolicyConfiguration>', 2,
                       ["must be a whole number from 0"]),
    "endless count": (f'<RetryPolicyConfiguration>\n<linearInterval name="a" maxRetryCount="{"1" * 5000}"/></RetryPolicyConfiguration>',
                      2, ["must be a whole number from 0"]),
    "no duration": ('<RetryPolicyConfiguration>\n\n<linearInterval\nname="a" retryInterval="soon"/></RetryPolicyConfiguration>', 3,
                    ["policies.a: delay='soon': write seconds as a number, or"]),
    "negative duration": ('<RetryPolicyConfiguration>\n<linearInterval name="a" retryInterval="-00:00:01"/></RetryPolicyConfiguration>',
                          2, ["delay='-00:00:01'"]),
    "cap below the minimum": ('<RetryPolicyConfiguration>\n<exponentialBackoff name="a" minBackoff="00:01:00"/></RetryPolicyConfiguration>',
                              2, ["must be at least min (60 s)"]),
    "document type": ("<!DOCTYPE x>\n<RetryPolicyConfiguration/>", 1, ["a document type is not allowed here; remove <!DOCTYPE ...>"]),
    "billion laughs": (BILLION_LAUGHS, 2, ["remove <!DOCTYPE ...>"]),
    "external entity": (EXTERNAL, 1, ["remove <!DOCTYPE ...>"]),
    "unknown entity": ("<RetryPolicyConfiguration>\n&x;</RetryPolicyConfiguration>", 2, ["this is not XML: undefined entity"]),
}  # fmt: skip


@pytest.mark.timeout(5)
@pytest.mark.parametrize("case", WRONG_XML)
def test_wrong_xml_names_the_line_and_the_fix(case):
    text, line, parts = WRONG_XML[case]
    error = error_of(parse_xml, text)
    for part in parts:
        assert part in error.problem
    assert error.line == line
    assert len(str(error)) < 500
