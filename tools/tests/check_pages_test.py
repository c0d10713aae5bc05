from sample_tree import SampleTree

import check_pages


class CheckPages(SampleTree):
    def setUp(self):
        super().setUp()
        self.write("examples/a.cpp", "int main() {\n  f();\n\n  g();\n  [&](int) {};\n}\n")
        self.write("examples/a.out", "one\ntwo\n")

    def test_passes_blocks_of_examples_and_links_that_lead_somewhere(self):
        self.write("README.md", "```cpp\nf();\n\ng();\n```\n```text\none\ntwo\n```\n")
        self.write("docs/guide.md", "```cpp\nint main() {\n  f();\n```\n[up](../README.md#top)\n")
        self.write("docs/other.md", "```cpp\n[&](int) {};\n```\n[away](https://example.org/x)\n")
        self.assert_passes(check_pages.check)

    def test_finds_code_that_no_example_has(self):
        for code in ["h();", "f();\ng();", "in() {"]:
            with self.subTest(code):
                self.write("docs/guide.md", f"# Guide\n\n```cpp\n{code}\n```\n")
                self.assert_finds(check_pages.check, "docs/guide.md:3: this block stands in no")

    def test_finds_output_that_no_example_prints(self):
        self.write("README.md", "```text\nthree\n```\n")
        self.assert_finds(check_pages.check, "README.md:1: this block stands in no .out file")

    def test_leaves_code_on_the_pages_of_modules_alone(self):
        self.write("stores/memory/README.md", "```cpp\nh();\n```\n")
        self.assert_passes(check_pages.check)

    def test_finds_a_link_that_leads_nowhere(self):
        self.write("docs/guide.md", "```sh\nls\n```\nsee\n[that](missing.md#part)\n")
        self.assert_finds(check_pages.check, "docs/guide.md:5: there is no missing.md")
