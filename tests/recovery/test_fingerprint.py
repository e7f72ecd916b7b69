# SPDX-License-Identifier: MIT
"""Fingerprints: what is alike is in one group, and nothing else is. Numbers are those of the checklist (11, 13, 15)."""

import json
import traceback

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redrive.printable import shortened
from redrive.recovery import fingerprint
from redrive.recovery.fingerprint import EXAMINED, Group, exception_group, excerpt, group_id, without_message
from redrive.worker.exception import trace_of

SHOP = "/srv/shop/shop/orders.py"

DOTNET = """System.InvalidOperationException: Order 17 has no lines
 ---> System.Collections.Generic.KeyNotFoundException: The given key '17' was not present in the dictionary.
   at System.Collections.Generic.Dictionary`2.get_Item(TKey key)
   at Shop.Orders.Packer.Find(Int32 id) in C:\\agent\\_work\\1\\s\\src\\Shop\\Packer.cs:line 31
   --- End of inner exception stack trace ---
   at Shop.Orders.PlaceOrderHandler.Handle(PlaceOrder message) in C:\\agent\\_work\\1\\s\\src\\Shop\\Handler.cs:line 12
   at NServiceBus.InvokeHandlerTerminator.Terminate(IInvokeHandlerContext context)"""

JAVA = """java.lang.IllegalStateException: order 17 has no lines
\tat java.base/java.util.Objects.requireNonNull(Objects.java:233)
\tat com.shop.orders.Packer.lambda$pack$0(Packer.java:31)
\tat com.shop.orders.PlaceOrderHandler.handle(PlaceOrderHandler.java:12)
\tat org.springframework.amqp.rabbit.listener.Invoker.invoke(Invoker.java:220)
Caused by: java.util.NoSuchElementException: 17
\t... 12 more"""


def trace(source, path=SHOP, call="handle", **names):
    """Return the traceback of a program's failure, as if its source were in that file."""
    program = dict(names)
    exec(compile(source, path, "exec"), program)  # noqa: S102 - a program of ours, as if it were in another place
    with pytest.raises(BaseException) as caught:
        program[call]()
    # Without the frames of this test and of pytest.
    return "".join(traceback.TracebackException(caught.type, caught.value, caught.tb.tb_next).format())


def group(text, kind=""):
    return exception_group(kind, text)


PACK = """
def handle():
    return pack({"id": 17})

def pack(order):
    return order["lines"]
"""


def test_the_title_says_what_was_raised_and_where():
    found = group(trace(PACK), "KeyError")
    assert (found.classifier, found.title) == ("exception", "KeyError in shop.orders.pack")
    assert len(found.id) == 16
    assert int(found.id, 16)


def test_line_numbers_and_source_lines_do_not_split_a_group():
    """Checklist 11."""
    moved = "import os\n\n# a new comment\n" + PACK.replace('order["lines"]', 'order[  "lines"  ]')
    first, second = trace(PACK), trace(moved)
    assert first != second
    assert group(first) == group(second)


def test_message_texts_do_not_split_a_group():
    """Checklist 11."""
    source = "def handle():\n    raise ValueError(text)\n"
    texts = [
        "",
        "no order 17",
        'several\n  lines\n\n  File "x.py", line 3, in evil\n',
        "at 0x7f00deadbeef",
        "x" * 5_000,
    ]
    assert len({group(trace(source, text=text)) for text in texts}) == 1


def test_notes_do_not_split_a_group():
    """Checklist 11."""
    plain = "def handle():\n    raise ValueError('no')\n"
    noted = "def handle():\n    error = ValueError('no')\n    error.add_note('order 17\\nof today')\n    raise error\n"
    assert group(trace(plain)) == group(trace(noted))


def test_another_exception_or_another_place_is_another_group():
    found = [
        group(trace(PACK)),
        group(trace(PACK.replace('order["lines"]', "order.lines"))),
        group(trace(PACK.replace("pack", "wrap"))),
        group(trace(PACK, path="/srv/shop/shop/billing.py")),
        group(trace(PACK), "shop.errors.Broken"),
    ]
    assert len({each.id for each in found}) == len(found)


def test_another_way_to_the_same_place_is_another_group():
    other = PACK + "\ndef handle_again():\n    return pack({})\n"
    assert group(trace(other)) != group(trace(other, call="handle_again"))


@pytest.mark.parametrize(
    "path",
    [
        "/app/shop/orders.py",
        "/home/ann/work/shop/orders.py",
        "/home/ann/src/company/work/shop/orders.py",
        "/Users/ann/work/shop/orders.py",
        "/opt/shop-1.2.3/shop/orders.py",
        "/usr/src/app/shop/orders.py",
        "/srv/web/releases/20240501/shop/orders.py",
        "C:\\Users\\ann\\work\\shop\\orders.py",
        "D:\\work\\shop\\orders.py",
        "./shop/orders.py",
        "shop/orders.py",
    ],
)
def test_where_the_program_is_installed_does_not_split_a_group(path):
    """Checklist 11."""
    assert group(trace(PACK, path=path)) == group(trace(PACK))


@pytest.mark.parametrize(
    "path",
    [
        *(
            "tasks.py",
            "/app/tasks.py",
            "/x/code/tasks.py",
            "/x/current/tasks.py",
            "/x/src/tasks.py",
            "/workspace/tasks.py",
        ),
        *(
            "/home/ann/work/tasks.py",
            "/Users/ann/work/tasks.py",
            "/root/work/tasks.py",
            "C:\\Users\\ann\\work\\tasks.py",
        ),
        *("/srv/web/tasks.py", "/opt/web/tasks.py", "/mnt/web/tasks.py", "/tmp/web/tasks.py", "/var/www/web/tasks.py"),  # noqa: S108
    ],
)
def test_nor_does_it_for_a_module_in_the_programs_root(path):
    assert group(trace(PACK, path=path)).title == "KeyError in tasks.pack"


def test_a_package_is_known_by_its_name():
    assert group(trace(PACK, path="/app/shop/orders/__init__.py")).title == "KeyError in shop.orders.pack"


@pytest.mark.parametrize(
    "library",
    [
        "/app/.venv/lib/python3.11/site-packages/httpx/client.py",
        "/home/ann/.venv/lib/python3.13/site-packages/httpx/client.py",
        "/usr/lib/python3/dist-packages/httpx/client.py",
        "/usr/lib/python3.12/json/decoder.py",
        "C:\\Python312\\Lib\\json\\decoder.py",
        "/var/lang/lib/python311.zip/json/decoder.py",
        "<frozen importlib._bootstrap>",
    ],
)
def test_functions_of_libraries_do_not_count_beside_ours(library):
    inner = {}
    exec(compile("def send():\n    raise OSError('down')\n", library, "exec"), inner)  # noqa: S102 - as above
    found = group(trace("def handle():\n    send()\n", send=inner["send"]))
    assert found.title == "OSError in shop.orders.handle"
    assert found == group(trace("def handle():\n    raise OSError('down')\n"))


def test_functions_of_libraries_count_if_there_are_no_others():
    path = "/venv/lib/python3.11/site-packages/shop/orders.py"
    elsewhere = "/usr/lib/python3/dist-packages/shop/orders.py"
    assert group(trace(PACK, path=path)).title == "KeyError in shop.orders.pack"
    assert group(trace(PACK, path=path)) == group(trace(PACK, path=elsewhere))


FALL = """
def handle():
    fall(depth)

def fall(depth):
    if not depth:
        raise ValueError(depth)
    step(depth - 1)

def step(depth):
    fall(depth)
"""


def test_only_the_innermost_five_functions_count():
    layers = "".join(f"def layer{n}():\n    layer{n + 1}()\n\n" for n in range(6)) + "def layer6():\n    1 / 0\n"
    found = [group(trace(f"def handle():\n    layer{n}()\n\n{layers}")) for n in range(6)]
    assert [each == found[0] for each in found] == [True, True, True, False, False, False]


def test_the_depth_of_a_recursion_does_not_split_a_group():
    """Checklist 11, 13."""
    assert len({group(trace(FALL, depth=depth)) for depth in (1, 2, 7, 100)}) == 1
    straight = "def handle():\n    fall(depth)\n\ndef fall(depth):\n    assert depth\n    fall(depth - 1)\n"
    told = [trace(straight, depth=depth) for depth in (1, 2, 3, 50)]
    assert "[Previous line repeated " in told[-1]
    assert len({group(one) for one in told}) == 1


CHAIN = """
def handle():
    try:
        load()
    except Exception as error:
        raise RuntimeError("cannot handle {where}") {link}

def load():
    raise {cause}
"""


@pytest.mark.parametrize("link", ["from error", ""])
def test_causes_belong_to_the_group(link):
    """Checklist 15."""

    def told(where, cause):
        return trace(CHAIN.format(where=where, link=link, cause=cause))

    assert group(told("17", "KeyError(17)")).title == "RuntimeError in shop.orders.handle"
    assert group(told("17", "KeyError(17)")) == group(told("18", "KeyError(18)"))
    assert group(told("17", "KeyError(17)")) != group(told("17", "TimeoutError(17)"))


def test_a_cause_that_was_never_raised_belongs_to_the_group():
    """Checklist 15."""
    source = "def handle():\n    raise RuntimeError('no') from {}\n"
    told = [trace(source.format(cause)) for cause in ("KeyError(1)", "KeyError(2)", "OSError(1)", "None")]
    groups = [group(one) for one in told]
    assert groups[0] == groups[1]
    assert len(set(groups)) == 3


def test_causes_of_causes_that_were_never_raised_belong_to_the_group():
    """Checklist 15."""
    source = """
def handle():
    first, second = KeyError(1), {second}
    second.__{link}__ = first
    raise RuntimeError("no") from second
"""
    for link in ("cause", "context"):
        told = [group(trace(source.format(second=second, link=link))) for second in ("OSError(2)", "TypeError(2)")]
        assert told[0] != told[1]


def test_how_often_the_same_attempt_failed_before_does_not_split_a_group():
    source = """
def handle():
    attempt(times)

def attempt(left):
    try:
        raise OSError(left)
    except OSError:
        if left == 1:
            raise
        attempt(left - 1)
"""
    assert len({group(trace(source, times=times)) for times in (2, 3, 9)}) == 1


MANY = """
def handle():
    raise ExceptionGroup("{text}", [made(one) for one in ({members})])

def made(one):
    try:
        one()
    except Exception as error:
        return error

def a(): raise ValueError("a")
def b(): raise OSError("b")
def c(): raise ExceptionGroup("inner", [KeyError(1), made(a)])
"""


def many(members, text="many"):
    return group(trace(MANY.format(members=members, text=text)))


def test_members_of_an_exception_group_count_but_not_their_order():
    """Checklist 15."""
    assert many("a, b, c").title == "ExceptionGroup in shop.orders.handle"
    assert many("a, b, c") == many("c, b, a") == many("b, a, c, a, b", text="more of them")
    assert len({many("a, b, c"), many("a, b"), many("a,"), many("c,")}) == 4


def test_members_that_were_never_raised_count():
    """Checklist 15."""
    source = "def handle():\n    raise ExceptionGroup('many', [{}])\n"
    members = (
        "KeyError(1)",
        "OSError(1)",
        "KeyError(1), OSError(2)",
        "KeyError(1), TypeError(2)",
        "OSError(2), KeyError(1)",
    )
    groups = [group(trace(source.format(each))) for each in members]
    assert len(set(groups)) == 4
    assert groups[2] == groups[4]


def test_an_exception_group_is_found_behind_and_before_other_exceptions():
    """Checklist 15."""
    plain = MANY.format(text="many", members="a, b")
    raised = "try:\n        gather()\n    except Exception as error:\n        raise RuntimeError from error\n"
    behind = plain.replace("def handle()", "def gather()") + f"\ndef handle():\n    {raised}"
    assert group(trace(behind)).title == "RuntimeError in shop.orders.handle"
    assert group(trace(behind)) != group(trace(behind.replace("(a, b)", "(a,)")))
    before = plain.replace("])\n\ndef made", "]) from KeyError(17)\n\ndef made")
    assert group(trace(before)).title == "ExceptionGroup in shop.orders.handle"
    assert group(trace(before)) != many("a, b")


def test_a_syntax_error_is_known_by_who_compiled_it():
    source = "def handle():\n    compile(text, '<order>', 'exec')\n"
    told = [trace(source, text=text) for text in ("x = = 1", "\n\nif True print(17)", "def f(:\n  pass")]
    assert len({group(one) for one in told}) == 1
    assert group(told[0]).title == "SyntaxError in shop.orders.handle"


def test_code_without_a_file_is_known_by_its_kind():
    first, second = (trace(PACK, path=path) for path in ("<ipython-input-7-0f3a>", "<ipython-input-12-77aa>"))
    assert group(first) == group(second)
    assert group(first).title == "KeyError in <ipython>.pack"
    assert group(trace("raise_ = 1\ndef handle():\n    exec('1 / 0')\n")).title == "ZeroDivisionError in <string>"


@pytest.mark.parametrize("name", ["<listcomp>", "<dictcomp>", "<setcomp>"])
def test_comprehensions_do_not_split_groups_between_versions_of_python(name):
    told = trace(PACK)
    with_frame = told.replace("KeyError:", f'  File "{SHOP}", line 7, in {name}\nKeyError:')
    assert with_frame != told
    assert group(with_frame) == group(told)


@pytest.mark.parametrize(("line", "kind"), [("_Hidden: no", "_Hidden"), ("shop.f.<locals>.No", "shop.f.<locals>.No")])
def test_the_trace_says_the_type_if_nothing_else_does(line, kind):
    frames = f'Traceback (most recent call last):\n  File "{SHOP}", line 7, in pack\n'
    assert group(frames + line).title == f"{kind} in shop.orders.pack"
    assert group(frames + "two words: no").title == "failure in shop.orders.pack"
    assert group(frames + "x" * 201).title == "failure in shop.orders.pack"
    assert group(frames + ": no").title == "failure in shop.orders.pack"


def test_a_trace_that_was_cut_in_the_middle_keeps_its_group():
    """Checklist 13."""
    layers = "\n".join(f"def layer{n}():\n    layer{n + 1}()\n" for n in range(400))
    source = f"def handle():\n    layer0()\n\n{layers}\ndef layer400():\n    raise ValueError(text)\n"
    cut = [shortened(trace(source, text="x" * length), 8_000) for length in (0, 1, 100, 777, 2_000)]
    assert all("cut here" in one for one in cut)
    assert len({group(one) for one in cut} | {group(trace(source, text=""))}) == 1


def test_a_message_that_was_cut_in_the_middle_does_not_count():
    """Checklist 13."""
    source = "def handle():\n    raise ValueError(text)\n"
    long = "".join(f"detail{number}: of the order\n  and more\n" for number in range(1_000))
    assert group(shortened(trace(source, text=long), 8_000)) == group(trace(source, text="short"))


def test_a_real_workers_trace_is_read():
    def handler():
        json.loads("{")

    with pytest.raises(json.JSONDecodeError) as caught:
        handler()
    found = exception_group("json.decoder.JSONDecodeError", trace_of(caught.value))
    assert found.title == "json.decoder.JSONDecodeError in recovery.test_fingerprint.handler"


def test_dotnet_is_known_by_the_first_method_of_its_own():
    found = group(DOTNET, "System.InvalidOperationException")
    assert found.title == "System.InvalidOperationException in Shop.Orders.Packer.Find"
    changed = DOTNET.replace("line 31", "line 99").replace("17", "18").replace("C:\\agent", "D:\\build")
    assert group(changed, "System.InvalidOperationException") == found
    assert group(DOTNET) == found
    for word in ("bei", "em", "en", "in", "w", "à", "в", "在"):
        assert group(DOTNET.replace("   at ", f"   {word} ")) == found
    assert group(DOTNET.replace("Packer.Find", "Packer.Wrap"), "System.InvalidOperationException") != found


@pytest.mark.parametrize(
    "platform",
    [
        *("System.Linq", "Microsoft.Extensions", "NServiceBus", "MassTransit.Middleware"),
        *("java.util", "javax.jms", "jakarta.jms", "jdk.internal", "sun.nio", "org.springframework.amqp"),
    ],
)
def test_methods_of_a_platform_do_not_count_beside_ours(platform):
    assert group(f"X: no\n  at {platform}.A.B(C c)\n  at Shop.Pack(D d)").title == "X in Shop.Pack"


def test_what_a_compiler_numbers_does_not_split_a_group():
    first, second = (f"X: no\n   at Shop.Orders.<Handle>d__{n}.MoveNext()" for n in (4, 17))
    assert group(first) == group(second)
    assert group(first).title == "X in Shop.Orders.<Handle>d__.MoveNext"


def test_java_is_known_by_the_first_method_of_its_own():
    found = group(JAVA, "java.lang.IllegalStateException")
    assert found.title == "java.lang.IllegalStateException in com.shop.orders.Packer.lambda$pack$"
    assert group(JAVA.replace("31", "99").replace("17", "18"), "java.lang.IllegalStateException") == found
    assert group("X: y\n\tat java.base/java.lang.Thread.run(Thread.java:1)").title == "X in java.lang.Thread.run"


def test_without_a_trace_the_type_says_it_and_without_a_type_the_reason():
    """Checklist 13."""
    assert exception_group("ValueError", "").title == "ValueError: no stack trace"
    assert exception_group("ValueError", "no trace at all, only words").id == exception_group("ValueError", "").id
    assert exception_group("", "", "MaxDeliveryCountExceeded").title == "MaxDeliveryCountExceeded"
    assert exception_group("", "").title == "no exception and no reason"
    found = {exception_group(kind, "", reason).id for kind in ("", "A", "B") for reason in ("", "X")}
    assert len(found) == 4  # a type says more than a reason


def test_frames_alone_are_enough():
    frames = 'Some words.\n  File "/app/shop/orders.py", line 3, in pack\n    x\n'
    assert exception_group("", frames.split("\n", 1)[1], "rejected").title == "rejected in shop.orders.pack"


def test_ids_are_the_same_for_ever():
    """They are stored, and a group keeps its notes only as long as its id: whoever breaks this raises VERSION."""
    assert fingerprint.VERSION == 1
    assert group_id("exception", "ValueError") == "d9533fe08b5e6dfd"
    assert group(trace(PACK), "KeyError").id == "8ed7302ff4cfd291"
    assert len({group_id("a", "bc"), group_id("ab", "c"), group_id("a", "b"), group_id("", "abc")}) == 4


class Watched(str):
    """A text that notes which parts of it are looked at, and can be looked at in no other way."""

    __slots__ = ("seen",)

    def __getitem__(self, key):
        part = str.__getitem__(self, key)
        self.seen = [*getattr(self, "seen", []), len(part)]
        return part

    def _refuse(self, *_, **__):
        raise AssertionError("the whole text was looked at")

    split = splitlines = partition = rpartition = find = rfind = strip = replace = encode = __iter__ = __contains__ = (
        _refuse
    )


PATHOLOGICAL = {
    "one line": "a" * 10_000_000,
    "lines": "\n" * 10_000_000,
    "spaces": " " * 10_000_000,
    "frames": '  File "/app/a.py", line 1, in f\n' * 300_000,
    "half frames": '  File "' * 1_000_000,
    "endings": '", line 1, in ' * 700_000,
    "headers": "Traceback (most recent call last):\n" * 300_000,
    "separators": "+-+---------------- 1 ----------------\n" * 250_000,
    "margins": "| " * 5_000_000,
    "dotnet": "   at A.B(" * 1_000_000,
    "numbers": "   at A__" + "1_" * 5_000_000 + "(",
    "path": '  File "' + "/a" * 5_000_000 + '.py", line 1, in f',
}


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_of_a_huge_trace_only_the_beginning_and_the_end_are_looked_at(name):
    """Checklist 13: 10 MB cost what 128 kB cost."""
    huge = Watched(PATHOLOGICAL[name])
    found = exception_group("ValueError", huge)
    assert sum(huge.seen) <= 2 * EXAMINED
    assert found.title.startswith("ValueError")
    assert len(found.title) <= 300


def test_beginning_and_end_of_a_huge_trace_are_whole_lines():
    text = "".join(f"{number:08}\n" for number in range(100_000))
    lines = excerpt(text).split("\n")
    assert {len(line) for line in lines if line.isdigit()} == {8}
    assert (lines[0], lines[-2]) == ("00000000", "00099999")
    assert excerpt("short\n") == "short\n"


def test_a_huge_trace_has_the_group_of_its_end():
    noise = "".join(f'  File "/app/shop/noise{n}.py", line {n}, in f{n}\n' for n in range(50_000))
    real = trace(PACK).split("\n", 1)[1]
    lead = "Traceback (most recent call last):\n"
    assert group(lead + noise + real).title == "KeyError in shop.orders.pack"


@given(st.text(), st.text() | st.lists(st.sampled_from((DOTNET + JAVA).split("\n"))).map("\n".join), st.text())
@example("", "  + Exception Group Traceback (most recent call last):\n  |", "")
@example("", '  File "", line 1, in ', "")
@example("", '  File "/", line 1, in x', "")
@example("", '  File "C:", line 1, in x', "")
@example("", '  File "__init__.py", line 1, in x', "")
@example("", '  File "home", line 1, in x', "")
@example("", '  File "/home/a/site-packages", line 1, in x', "")
@example("\ud800", "\ud800", "\ud800")
def test_any_text_has_a_group_and_always_the_same(kind, text, reason):
    """Checklist 13."""
    found = exception_group(kind, text, reason)
    assert isinstance(found, Group)
    assert found.title
    assert found == exception_group(kind, text, reason)


LINES = [line for text in (trace(PACK), trace(MANY.format(members="a, c", text="t"))) for line in text.split("\n")]


@given(st.lists(st.sampled_from(LINES), max_size=40).map("\n".join))
def test_any_shuffled_traceback_has_a_group(text):
    """Checklist 13, 15."""
    assert exception_group("", text) == exception_group("", text)


@given(
    st.permutations(["a", "b", "c"]), st.integers(1, 10_000), st.text(st.characters(codec="ascii", categories=["L"]))
)
def test_order_lines_and_texts_never_matter(members, line, text):
    """Checklist 11, 15."""
    assert group("\n" * 3 + trace("\n" * line + MANY.format(members=", ".join(members), text=text))) == many("a, b, c")


@given(
    st.sampled_from(["", "shop.NoStock"]),
    st.lists(
        st.sampled_from([*LINES, *(DOTNET + JAVA).split("\n"), "at a:b(c)", "E: said", "E : x", ":", "in: f(x)"]),
        max_size=30,
    ),
    st.sampled_from(["", "\n", "\n\n"]),
)
def test_a_trace_without_its_last_message_is_in_the_same_group(kind, lines, end):
    text = "\n".join(lines) + end
    assert exception_group(kind, without_message(text), "reason") == exception_group(kind, text, "reason")


def test_traces_that_differ_in_their_message_alone_are_equal_without_it():
    assert without_message(f"{JAVA}\nE: order 1") == without_message(f"{JAVA}\nE: order 2")
