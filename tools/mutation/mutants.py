"""Mutants of a Python module: small faults, each in one place of the body of a function.

Not changed are names, annotations, decorators, defaults, messages (f-strings, strings with white space and the
arguments of `raise`), and the `strict` of `zip`, which is an assertion.
"""

import ast
import copy
import hashlib
import types
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.abc import InspectLoader
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef
_ORDER = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_NEGATED_ELSEWHERE = (ast.Compare, ast.BoolOp, ast.UnaryOp)


@dataclass
class Mutant:
    """A fault, which `apply` introduces into the syntax tree of the module."""

    module: str
    function: str
    """Its `__qualname__`."""
    line: int
    lines: frozenset[int]
    """The lines of the statement: a test that runs none of them cannot detect the fault."""
    change: str
    apply: Callable[[], None]

    @property
    def name(self) -> str:
        """An identifier that is stable as long as the function does not change."""
        return f"{self.module} {self.function}: {self.change}"


class Module:
    """The source of a module, its functions and their mutants.

    Args:
        path: of the file, as the interpreter knows it.
        name: of the module in the names of its mutants.

    Attributes:
        digest: a checksum of the code, which comments and docstrings do not change.
    """

    def __init__(self, path: Path, name: str):
        self.path, self.name = path, name
        self.tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        self.digest = hashlib.sha256(ast.dump(_without_docstrings(self.tree)).encode()).hexdigest()
        self.mutants = [
            mutant for qualified, f in _functions(self.tree) for mutant in self._function_mutants(qualified, f)
        ]
        seen: Counter[str] = Counter()
        for mutant in self.mutants:
            seen[mutant.name] += 1
            if seen[mutant.name] > 1:
                mutant.change += f" ({seen[mutant.name]})"

    def compile_functions(self) -> dict[str, list[types.CodeType]]:
        """The code objects of the functions by qualified name, which a property and its setter share."""
        found: dict[str, list[types.CodeType]] = {}
        pending = [InspectLoader.source_to_code(self.tree, str(self.path))]
        while pending:
            for code in pending.pop().co_consts:
                if isinstance(code, types.CodeType):
                    found.setdefault(code.co_qualname, []).append(code)
                    pending.append(code)
        return found

    def _function_mutants(self, qualified: str, function: Function) -> Iterator[Mutant]:
        for statement in _body(function):
            yield from self._statement_mutants(qualified, statement)

    def _statement_mutants(self, qualified: str, statement: ast.stmt) -> Iterator[Mutant]:
        fields = ("body", "orelse", "finalbody", "handlers")
        nested = [child for name in fields for child in getattr(statement, name, [])]
        last = nested[0].lineno - 1 if nested else statement.end_lineno or statement.lineno
        lines = frozenset(range(statement.lineno, max(last, statement.lineno) + 1))
        for owner, field, index, node in _expressions(statement):
            for other in _variants(owner, field, node):
                yield self._mutant(qualified, lines, owner, field, index, node, other)
        for other in _statement_variants(statement):
            change = f"{_short(statement)} -> {_short(other)}"
            yield Mutant(self.name, qualified, statement.lineno, lines, change, _replace_statement(statement, other))
        for child in nested:
            if isinstance(child, ast.ExceptHandler):
                for inner in child.body:
                    yield from self._statement_mutants(qualified, inner)
            elif isinstance(child, Function):
                for inner in _body(child):
                    yield from self._statement_mutants(qualified, inner)
            elif isinstance(child, ast.stmt):
                yield from self._statement_mutants(qualified, child)

    def _mutant(
        self,
        qualified: str,
        lines: frozenset[int],
        owner: ast.AST,
        field: str,
        index: int | None,
        node: ast.AST,
        other: ast.AST,
    ) -> Mutant:
        def apply() -> None:
            ast.copy_location(other, node)
            if index is None:
                setattr(owner, field, other)
            else:
                getattr(owner, field)[index] = other
            ast.fix_missing_locations(self.tree)

        line = getattr(node, "lineno", getattr(owner, "lineno", min(lines)))
        if isinstance(node, ast.cmpop | ast.operator | ast.boolop):
            change = f"{_short(owner)}: {type(node).__name__} -> {type(other).__name__}"
        else:
            change = f"{_short(node)} -> {_short(other)} in {_short(owner)}"
        return Mutant(self.name, qualified, line, lines, change, apply)


def _without_docstrings(tree: ast.AST) -> ast.AST:
    """A copy of a tree without docstrings, those of attributes among them."""
    tree = copy.deepcopy(tree)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return tree


def _functions(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """The outermost functions of a module and of its classes."""
    for node in tree.body:
        if isinstance(node, Function):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef) and not any(ast.unparse(base) == "Protocol" for base in node.bases):
            yield from _functions(node, f"{prefix}{node.name}.")


def _body(function: Function) -> list[ast.stmt]:
    """The statements of a function without its docstring."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return function.body[1:] if documented else function.body


def _expressions(statement: ast.stmt) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """Every node of a statement that is not itself a statement: its parent, the field of that, and the index in it."""
    skipped = {"annotation", "decorator_list", "returns", "args" if isinstance(statement, Function) else "", "msg"}
    if isinstance(statement, ast.Raise | ast.Import | ast.ImportFrom | ast.ClassDef):
        return
    pending: list[ast.AST] = [statement]
    while pending:
        owner = pending.pop()
        for field, value in ast.iter_fields(owner):
            if owner is statement and field in skipped:
                continue
            for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(node, ast.stmt | ast.JoinedStr | ast.ExceptHandler) or not isinstance(node, ast.AST):
                    continue
                if isinstance(node, ast.keyword) and node.arg == "strict":
                    continue
                yield owner, field, index, node
                pending.append(node)


def _variants(owner: ast.AST, field: str, node: ast.AST) -> Iterator[ast.AST]:
    """The alternatives to a node."""
    if isinstance(node, ast.cmpop) and type(node) in _ORDER:
        yield _ORDER[type(node)]()
    elif isinstance(node, ast.operator) and type(node) in _ARITHMETIC:
        yield _ARITHMETIC[type(node)]()
    elif isinstance(node, ast.boolop):
        yield ast.Or() if isinstance(node, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        elif isinstance(node.value, int | float):
            yield ast.Constant(node.value + 1)
        elif isinstance(node.value, str) and node.value.split() == [node.value]:
            yield ast.Constant(node.value + "XX")
        elif isinstance(node.value, str | bytes) and not node.value:
            yield ast.Constant("XX" if isinstance(node.value, str) else b"XX")
    if field in ("lower", "upper") and isinstance(owner, ast.Slice) and not isinstance(node, ast.Constant):
        yield ast.BinOp(node, ast.Add(), ast.Constant(1))  # pyright: ignore[reportArgumentType]
    if field == "value" and isinstance(owner, ast.Return) and not _is_none(node):
        yield ast.Constant(None)
    if (field == "test" or (field == "ifs" and isinstance(owner, ast.comprehension))) and not isinstance(
        node, _NEGATED_ELSEWHERE
    ):
        yield ast.UnaryOp(ast.Not(), node)  # pyright: ignore[reportArgumentType]


def _statement_variants(statement: ast.stmt) -> Iterator[ast.stmt]:
    """The alternatives to a statement."""
    if isinstance(statement, ast.Expr) and ast.unparse(statement).startswith("super()."):
        yield ast.Expr(ast.Call(ast.Name("super", ast.Load()), [], []))  # keeps the closure over the class
    elif isinstance(statement, ast.Raise | ast.AugAssign | ast.Delete) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    ):
        yield ast.Pass()
    elif isinstance(statement, ast.Break):
        yield ast.Continue()
    elif isinstance(statement, ast.Continue):
        yield ast.Break()


def _replace_statement(statement: ast.stmt, other: ast.stmt) -> Callable[[], None]:
    """A function that replaces a statement by another in place."""

    def apply() -> None:
        line, end = statement.lineno, statement.end_lineno
        statement.__class__ = type(other)  # pyright: ignore[reportAttributeAccessIssue]
        statement.__dict__.clear()
        statement.__dict__.update(vars(other))
        statement.lineno, statement.end_lineno, statement.col_offset, statement.end_col_offset = line, end, 0, 0
        ast.fix_missing_locations(statement)

    return apply


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _short(node: ast.AST, limit: int = 70) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
