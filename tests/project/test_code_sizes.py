"""Sizes of classes and functions, and docstrings, in the sources of all packages.

The lists of exceptions may only become shorter: an entry that is no longer needed, or allows more than there is, fails, too.
"""

from __future__ import annotations

import pytest
from support import ROOT
from support.code_sizes import ClassSize, FunctionSize, all_sizes, cpp_sizes, python_classes, sources, undocumented

MOST_METHODS, MOST_FIELDS, MOST_COMPLEXITY, MOST_LINES = 25, 20, 15, 10

LARGE_CLASSES: dict[str, tuple[int, int]] = {}
"""Methods and fields of the classes that are still too large."""

PYTHON = """
class Small:
    size: int
    option_: int = option(3)

    def __init__(self):
        self.one = self.other = 1

    @property
    def both(self):
        return [self.one, self.other]

    @both.setter
    def both(self, value):
        self.one, self.other = value
"""

CPP = """
namespace a {
enum class Kind : int { none, some };
class Base;
struct Row { int a = 0, b{}; std::function<void(int)> call_ = [](int x) { if (x) return; }; };
// class Comment { int x; };
class Network final : public Base {
 public:
  Network(int size, Row row = {}) : size_{size}, row_{row} { if (size < 0) throw "class { (;"; }
  ~Network() override = default;
  int size() const { return size_ > 1 ? size_ : 1; }
  template <typename T> bool operator==(const T& other) const;
  std::vector<std::pair<int, int>> rows(char separator = '{') const noexcept;

 private:
  static constexpr int kMost = 3;
  std::map<int, std::vector<Row>> by_number_;
  int size_{1};
  Row row_ = {};
};
int Network::sum(const Row& row) {
  for (int i = 0; i < 3; ++i) { while (row.a && row.b) { switch (i) { case 1: break; case 2: break; } } }
}
}
"""


def test_sizes_of_python_are_counted() -> None:
    assert list(python_classes(PYTHON, "f.py")) == [ClassSize("f.py:Small", 2, 3)]


def test_sizes_of_cpp_are_counted() -> None:
    assert list(cpp_sizes(CPP, "f.hpp")) == [
        ClassSize("f.hpp:Row", 0, 3),
        FunctionSize("f.hpp:Network::Network", 2),
        FunctionSize("f.hpp:Network::size", 1),
        ClassSize("f.hpp:Network", 4, 3),
        FunctionSize("f.hpp:Network::sum", 5),
    ]


def test_classes_are_small() -> None:
    sizes = [size for size in all_sizes(sources(".py", ".hpp", ".cpp", ".h")) if isinstance(size, ClassSize)]
    assert len(sizes) > 1000
    large = {each.where: (each.methods, each.fields) for each in sizes if each.methods > MOST_METHODS or each.fields > MOST_FIELDS}
    grown = {where: size for where, size in large.items() if size > LARGE_CLASSES.get(where, (0, 0))}
    assert not grown
    assert large == LARGE_CLASSES, "the list of exceptions says more than is there: shorten it"


def test_functions_of_cpp_are_simple() -> None:
    """Those of Python are checked by the rule C901 of ruff, with the same limit and without exceptions."""
    sizes = [size for size in all_sizes(sources(".hpp", ".cpp", ".h")) if isinstance(size, FunctionSize)]
    assert len(sizes) > 1500
    assert [each for each in sizes if each.complexity > MOST_COMPLEXITY] == []
    text = (ROOT / "pyproject.toml").read_text()
    assert f"max-complexity = {MOST_COMPLEXITY}\n" in text
    assert "C901" not in text
    assert [path for path in sources(".py") if "noqa: C901" in path.read_text()] == []


@pytest.mark.parametrize(("docstring", "found"), [("", ["f.py:_long"]), ('    """Says what it does."""\n', [])])
def test_missing_docstrings_are_found(docstring: str, found: list[str]) -> None:
    body = "".join(f"    x = {number}\n" for number in range(11))
    text = f"def _long():\n{docstring}{body}def _short():\n    pass\n"
    assert list(undocumented(text, "f.py", MOST_LINES)) == found


def test_long_private_functions_have_a_docstring() -> None:
    result = [where for path in sources(".py") for where in undocumented(path.read_text(), str(path.relative_to(ROOT)), MOST_LINES)]
    assert result == []
