from unittest import mock

from sample_tree import SampleTree

import check_examples

HEADER = "core/include/oncebox/thing.hpp"


class CheckExamples(SampleTree):
    def setUp(self):
        super().setUp()
        self.write("examples/CMakeLists.txt", "oncebox_add_example(a SOURCES a.cpp)\n")
        self.write("examples/README.md", "| [a](a.cpp) | everything |\n")
        self.write("examples/a.out", "one\n")
        self.write_example("Thing thing;")

    def write_example(self, code, include="oncebox/thing.hpp"):
        self.write("examples/a.cpp", f'#include "{include}"\nint main() {{ {code} }}\n')

    def test_passes_a_class_that_an_example_names(self):
        self.write(HEADER, "class Thing {\n};\n")
        self.assert_passes(check_examples.check)

    def test_passes_a_class_whose_header_is_included_through_others(self):
        self.write(HEADER, "class Thing {\n};\n")
        self.write("core/include/oncebox/all.hpp", '#include "oncebox/thing.hpp"\n')
        self.write("examples/example_store.hpp", '#include "oncebox/all.hpp"\n')
        self.write_example("Thing thing;", include="example_store.hpp")
        self.assert_passes(check_examples.check)

    def test_finds_a_class_that_no_example_names(self):
        for declared in [
            "class Other {\n};\n",
            "class Other final : public Thing {\n};\n",
            "template <class T>\nclass Other {\n};\n",
            "class Thing {\n};\nclass Other : public Thing {\n};\n",
        ]:
            with self.subTest(declared):
                self.write(HEADER, declared)
                self.assert_finds(check_examples.check, f"{HEADER}: no example shows Other")

    def test_finds_a_class_whose_name_stands_in_a_comment_or_a_text_alone(self):
        self.write(HEADER, "class Thing {\n};\n")
        for code in ["// Thing\n", 'print("Thing");', 'print(R"(Thing)");', "MyThing thing;"]:
            with self.subTest(code):
                self.write_example(code)
                self.assert_finds(check_examples.check, f"{HEADER}: no example shows Thing")

    def test_finds_a_class_whose_name_an_example_uses_for_something_else(self):
        self.write(HEADER, "class Thing {\n};\n")
        self.write("core/include/oncebox/other.hpp", "")
        self.write_example("Thing thing;", include="oncebox/other.hpp")
        self.assert_finds(check_examples.check, f"{HEADER}: no example shows Thing")

    def test_wants_one_name_of_a_header_without_a_class(self):
        types = "struct Options {\n};\nenum class Kind { one };\n"
        self.write(HEADER, types + "void make_thing(Options options);\n")
        for code in ["Options options;", "Kind kind;", "make_thing({});"]:
            with self.subTest(code):
                self.write_example(code)
                self.assert_passes(check_examples.check)
        self.write_example("")
        self.assert_finds(check_examples.check, f"{HEADER}: no example shows Options")

    def test_takes_an_alias_of_a_template_for_it(self):
        template = "template <class Tag>\nclass Name {\n};\n"
        self.write(HEADER, template + "using Thing = Name<ThingTag>;\n")
        self.assert_passes(check_examples.check)

    def test_takes_a_template_that_others_specialise_for_a_type(self):
        self.write(HEADER, "template <class T>\nstruct Codec;\n")
        self.assert_finds(check_examples.check, f"{HEADER}: no example shows Codec")

    def test_leaves_alone_what_users_do_not_see(self):
        detail = "namespace detail {\nclass Other {\n};\n}  // namespace detail\n"
        self.write(HEADER, "class Other;\n" + detail)
        self.write("core/include/oncebox/driver/one.hpp", "class One {\n};\n")
        self.write("core/include/oncebox/detail/two.hpp", "class Two {\n};\n")
        self.write("core/include/oncebox/part/detail/three.hpp", "class Three {\n};\n")
        self.write("core/internal/oncebox/four.hpp", "class Four {\n};\n")
        self.write("core/include/oncebox/numbers.hpp", "inline constexpr int kOne = 1;\n")
        self.assert_passes(check_examples.check)

    def test_leaves_alone_what_is_listed_with_a_reason(self):
        self.write(HEADER, "class Thing {\n};\nclass Other {\n};\n")
        self.write("wire/include/oncebox/wire/json.hpp", "class Json {\n};\n")
        with mock.patch.object(
            check_examples, "NOT_SHOWN", {f"{HEADER} Other": "why", "wire/": "why"}
        ):
            self.assert_passes(check_examples.check)

    def test_finds_an_entry_of_the_list_that_is_not_needed(self):
        self.write(HEADER, "class Thing {\n};\n")
        with mock.patch.object(check_examples, "NOT_SHOWN", {HEADER: "why"}):
            self.assert_finds(check_examples.check, f"NOT_SHOWN need not have {HEADER}")

    def test_finds_an_example_that_is_not_run_or_not_listed(self):
        self.write("examples/b.cpp", "int main() {}\n")
        problems = "\n".join(check_examples.check(self.root))
        self.assertIn("examples/b.cpp: examples/CMakeLists.txt does not run it", problems)
        self.assertIn("examples/b.cpp: there is no b.out", problems)
        self.assertIn("examples/b.cpp: examples/README.md does not list it", problems)

    def test_does_not_count_an_example_that_is_not_run(self):
        self.write(HEADER, "class Thing {\n};\n")
        self.write("examples/CMakeLists.txt", "")
        problems = "\n".join(check_examples.check(self.root))
        self.assertIn(f"{HEADER}: no example shows Thing", problems)
