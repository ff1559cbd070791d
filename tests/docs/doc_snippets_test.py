"""What tools/doc_snippets.py makes of pages, and what it says of wrong ones."""
import pathlib
import sys
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))
sys.dont_write_bytecode = True
import doc_snippets


def blocks_of(text):
    return doc_snippets.parse("p.md", textwrap.dedent(text).lstrip("\n"))


def source_of(text):
    return doc_snippets.unit_source([("p.md", blocks_of(text))])


class Fragments(unittest.TestCase):
    def test_is_a_function_that_points_into_the_page(self):
        self.assertIn(
            'void line_3() {\n#line 4 "p.md"\nint x = 1;\n}\n', source_of("""
            Text.

            ```cpp
            int x = 1;
            ```
            """))

    def test_has_its_setup_first_and_runs(self):
        source = source_of("""
            <!-- snippet run=2
            int x = 1;
            -->
            ```cpp
            x = 2;
            ```
            """)
        self.assertIn('{\n#line 2 "p.md"\nint x = 1;\n#line 5 "p.md"\nx = 2;\n}', source)
        self.assertIn('run_fragment("p.md:4", 2, &p_page::line_4)', source)

    def test_without_run_is_only_compiled(self):
        self.assertNotIn("TEST", source_of("```cpp\nint x;\n```\n"))

    def test_continues_the_one_before(self):
        source = source_of("""
            ```cpp
            int x = 1;
            ```
            <!-- snippet continue -->
            ```cpp
            x = 2;
            ```
            """)
        self.assertEqual(source.count("void line_"), 1)
        self.assertLess(source.index("int x = 1;"), source.index("x = 2;"))

    def test_hoists_includes(self):
        source = source_of("```cpp\n#include <vector>\nint x;\n```\n")
        self.assertLess(source.index("#include <vector>"), source.index("namespace p_page"))
        self.assertIn('#line 3 "p.md"\nint x;', source)

    def test_scope_of_the_file(self):
        source = source_of("<!-- snippet scope=file -->\n```cpp\nstruct S {};\n```\n")
        self.assertNotIn("void line_", source)
        self.assertIn("struct S {};", source)

    def test_scope_of_all(self):
        source = source_of("<!-- snippet scope=global -->\n```cpp\nstruct S {};\n```\n")
        self.assertLess(source.index("struct S {};"), source.index("namespace p_page"))

    def test_is_the_same_every_time(self):
        text = "```cpp\nint x;\n```\n```json\n{}\n```\n"
        self.assertEqual(source_of(text), source_of(text))


class Strategies(unittest.TestCase):
    def test_are_checked_unless_marked(self):
        self.assertIn('check_strategy("p.md:1", R"json({}\n)json")', source_of("```json\n{}\n```\n"))
        self.assertNotIn("check_strategy(", source_of("<!-- snippet not-a-strategy -->\n```json\n{}\n```\n"))


class Programs(unittest.TestCase):
    PROGRAM = "<!-- run: 2 -->\n```cpp\nint main() {\n}\n```\n"

    def test_are_in_a_namespace_and_return(self):
        self.assertIn('namespace p_2_program {\n#line 3 "p.md"\nint main() {\nreturn 0;\n}\n}', source_of(self.PROGRAM))

    def test_must_print_what_the_page_shows(self):
        shown = "```console\n$ argosy run -n 2 ./a\nx\n$ ls\ny\n```\n"
        self.assertIn('run_program("p.md:2", 2, "p_2", R"text(x\n)text")', source_of(self.PROGRAM + shown))
        self.assertIn('run_program("p.md:2", 2, "p_2", std::nullopt)', source_of(self.PROGRAM))

    def test_without_run_are_only_compiled(self):
        source = source_of("```cpp\nint main() {\n}\n```\n")
        self.assertIn("p_1_program", source)
        self.assertNotIn("TEST", source)


class Errors(unittest.TestCase):
    def expect(self, text, message):
        with self.assertRaises(doc_snippets.Malformed) as caught:
            source_of(text)
        self.assertEqual(str(caught.exception), message)

    def test_name_page_and_line(self):
        fence = "```cpp\nint x;\n```\n"
        self.expect("<!-- snippet runs=2 -->\n" + fence,
                    'p.md:1: unknown option "runs=2", expected run=N, continue, scope=file, '
                    'scope=global or not-a-strategy')
        self.expect("x\n<!-- snippet run=2 -->\nText.\n" + fence, "p.md:2: this marker is not directly above a block")
        self.expect("<!-- snippet -->\n", "p.md:1: this marker is not directly above a block")
        self.expect("<!-- snippet\nint x;\n" + fence, "p.md:1: this comment has no end")
        self.expect("<!-- snippet --> x\n" + fence, "p.md:1: text after the end of a marker")
        self.expect("<!-- run: two -->\n" + fence, 'p.md:1: "run: two", expected a number of ranks')
        self.expect("<!-- run: 2 -->\n" + fence, 'p.md:1: "run: N" does not go with a cpp block')
        self.expect("<!-- snippet run=2 -->\n```cpp\nint main() {\n}\n```\n",
                    'p.md:1: "run" does not go with a program')
        self.expect("<!-- snippet run=2 -->\n```sh\nls\n```\n", 'p.md:1: "run" does not go with a sh block')
        self.expect("<!-- snippet scope=file run=2 -->\n" + fence, "p.md:1: scope=file goes with no other option")
        self.expect("<!-- snippet continue -->\n" + fence, "p.md:2: there is no fragment before to continue")
        self.expect(fence + "<!-- snippet continue run=2 -->\n" + fence,
                    "p.md:5: run=2, but the fragment before has run=0")
        self.expect("```cpp\nint main() {}\n```\n", "p.md:1: main() has no closing brace at the begin of a line")
        self.expect("```\nx\n```\n",
                    "p.md:1: a block without a language: cpp, json, cmake, sh, console, text, ...")
        self.expect("```cpp\nint x;\n", "p.md:1: this block has no end")
        self.expect("- x\n  ```cpp\n  int x;\n  ```\n", "p.md:2: an indented block would not be tested")


if __name__ == "__main__":
    unittest.main()
