"""The build hook: imports of moved packages are rewritten and nothing else is, and no text names a module that moves."""

from __future__ import annotations

import ast
import importlib.util
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
WHEEL = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]


def load_hook():
    spec = importlib.util.spec_from_file_location("build_wheel", ROOT / "build_wheel.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build_wheel = load_hook()
MOVED = build_wheel.moved_packages(WHEEL["sources"])


class Moved(ast.NodeTransformer):
    """What the hook must do, said on the tree; the hook itself works on positions in the text."""

    def visit_ImportFrom(self, node):
        if node.level == 0 and node.module.split(".")[0] in MOVED:
            node.module = f"assay.{node.module}"
        return node

    def visit_Import(self, node):
        for alias in node.names:
            if alias.name.split(".")[0] in MOVED:
                alias.asname = alias.asname or alias.name
                alias.name = f"assay.{alias.name}"
        return node


TOPS = st.sampled_from(["api", "domain", "runner", "apis", "alembic", "assay", "numpy", "presentation"])
DOTTED = st.builds(".".join, st.lists(st.sampled_from(["http", "api", "domain", "logs"]), max_size=2).map(list))
MODULES = st.builds(lambda top, rest: f"{top}.{rest}" if rest else top, TOPS, DOTTED)
FORMS = st.sampled_from(
    [
        "from {0} import a, b as c  # from {1} import x",
        "from   {0} import (\n    a,  # domain\n    api,\n)",
        "import {0} as m, {1} as domain",
        "import os, {0} as p",
        "from .{0} import a",
        "from . import api",
        "'é'; from {0} import ü",
        "def f():\n\tfrom {0} import a; import {1} as b\n\treturn api.http, domain",
        "if x: from {0} import a",
        "text = '''\nfrom {0} import a\nimport {1}\n'''",
        "raise E from api",
        "yield_ = lambda: (yield from domain)",
    ]
)
STATEMENTS = st.builds(lambda form, one, other: form.format(one, other), FORMS, MODULES, MODULES)


@settings(deadline=None)
@given(st.lists(STATEMENTS, max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_imports_of_moved_packages_are_rewritten_and_nothing_else(statements, newline):
    source = newline.join("\n".join(statements).split("\n"))
    changed = build_wheel.rewrite(source.encode(), MOVED).decode()
    assert ast.unparse(ast.parse(changed)) == ast.unparse(Moved().visit(ast.parse(source)))
    assert len(changed.splitlines()) == len(source.splitlines())
    assert changed.replace("assay.", "").count("#") == source.count("#")


@settings(deadline=None)
@given(TOPS)
def test_a_package_imported_by_its_bare_name_keeps_that_name(top):
    changed = build_wheel.rewrite(f"import {top}\n".encode(), MOVED).decode()
    assert changed == (f"import assay.{top} as {top}\n" if top in MOVED else f"import {top}\n")


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        ("x = 1\nimport api.http.logs\n", "line 2: write `from api.http import logs`"),
        ("from \\\n  domain.errors import AssayError\n", "line 1: write the import on one line"),
    ],
)
def test_an_import_that_cannot_be_rewritten_is_named_with_its_remedy(source, remedy):
    with pytest.raises(ValueError, match=remedy):
        build_wheel.rewrite(source.encode(), MOVED)


def sources():
    return [path for top in ("assay", "alembic", *sorted(MOVED)) for path in sorted((ROOT / top).rglob("*.py"))]


def test_every_module_of_the_clone_can_be_rewritten():
    changed = [path for path in sources() if build_wheel.rewrite(path.read_bytes(), MOVED) != path.read_bytes()]
    assert len(changed) > 600


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "research"])
def test_every_module_that_is_tried_with_the_wheel_can_be_rewritten(folder):
    modules = [path.read_bytes() for path in sorted((ROOT / folder).rglob("*.py"))]
    assert any(build_wheel.rewrite(module, MOVED) != module for module in modules)


def test_every_package_of_the_clone_moves():
    assert {"assay", "alembic", *MOVED} == set(WHEEL["only-include"])
    assert not [name for name in MOVED if (ROOT / "assay" / name).exists() or (ROOT / f"assay/{name}.py").exists()]


ALLOWED = {
    ("ingest/projection/reference.py", "python -m ingest.projection"),
    ("runner/models/__main__.py", "python -m runner.models"),
    ("assay/accuracy/report.py", "python -m predictor.shipped"),
    ("ingest/log/schema.py", "see ingest.log.chain"),
    ("alembic/versions/0004_hash_chain.py", "see ingest.log.chain"),
}
"""Pages of the clone that name the command which writes them, and a comment that stands in every database."""


def documentation(tree):
    """Return the strings that nothing reads at run time: docstrings, and texts below a name."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def named_modules(text):
    """Yield the parts of a text that are the full name of a module or package of the clone."""
    for word in text.replace(":", " ").replace("`", " ").split():
        parts = word.strip("'\".,;()").split(".")
        while len(parts) > 1 and parts[0] in MOVED:
            place = ROOT.joinpath(*parts)
            if place.with_suffix(".py").is_file() or (place / "__init__.py").is_file():
                yield ".".join(parts)
                break
            parts.pop()


def wrong_texts(path, source):
    tree = ast.parse(source)
    ignored = documentation(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in ignored:
            for name in named_modules(node.value):
                if not any(path == file and command.endswith(name) for file, command in ALLOWED):
                    yield f"{path}:{node.lineno}: {name}"
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = ast.unparse(node.func).rpartition(".")[2]
            if function in {"files", "import_module", "find_spec", "__import__", "PackageLoader", "getLogger"}:
                value = str(node.args[0].value)
                if value.split(".")[0] in MOVED:
                    yield f"{path}:{node.lineno}: {function}({value!r})"


@pytest.mark.parametrize(
    "source",
    [
        'files("domain")',
        'import_module("runner.protocol.child")',
        '[sys.executable, "-m", "api.background.child"]',
        'x = f"dashboard.screens.{name}.view"',
        '{"cpu": "runner.platforms.torch_eager:Cpu"}',
        'f("run python -m predictor.kernels first")',
    ],
)
def test_a_text_that_names_a_module_is_found(source):
    assert list(wrong_texts("api/x.py", source))


def test_no_text_names_a_module_that_has_another_name_in_a_wheel():
    """Derive such a text from `__name__`, `__package__` or the module: it must be right in both layouts."""
    wrong = [
        text
        for path in sources()
        for text in wrong_texts(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    ]
    assert wrong == []
