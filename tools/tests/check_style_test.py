from sample_tree import SampleTree

import check_style


class CheckStyle(SampleTree):
    def test_passes_a_tidy_tree(self):
        self.write("core/CMakeLists.txt", "oncebox_add_module(core\n  SOURCES src/a.cpp\n)\n")
        self.write("core/src/a.cpp", '#include "b.hpp"\n' + "x" * 100 + "\n")
        self.write("core/src/b.hpp", "#pragma once\n")
        self.write("docs/page.md", "A claim/work loop. " + "long " * 50 + "line\n")
        self.assert_passes(check_style.check)

    def test_finds_bad_lines(self):
        for line, expected in [
            ("x" * 101, "101 columns"),
            ("\tx = 1", "a tab"),
            ("x = 1 ", "white space at the end"),
            ("# TO" + "DO: later", "unfinished work"),
            ("# handles it exactly " + "once", "promises too much"),
            ('cat > "inbox/$ONCEBOX' + '_MESSAGE_ID"', "a path of what a sender chose"),
            ("cat > '${ONCEBOX" + "_TOPIC}'", "a path of what a sender chose"),
            ("path = '/wo" + "rk/main'", "build machine"),
            ("url = 'https://registry." + "npmjs.org/x'", "build machine"),
        ]:
            with self.subTest(expected):
                self.write("tools/a.py", f"first = 1\n{line}\n")
                self.assert_finds(check_style.check, "tools/a.py:2: ")
                self.assert_finds(check_style.check, expected)

    def test_finds_a_missing_last_newline(self):
        self.write("a.md", "words")
        self.assert_finds(check_style.check, "no newline at the end")

    def test_finds_a_header_without_pragma_once(self):
        self.write("core/src/b.hpp", "#ifndef B\n")
        self.assert_finds(check_style.check, "starts with #pragma once")

    def test_finds_long_files(self):
        self.write("core/src/b.hpp", "#pragma once\n" + "\n" * 400)
        self.assert_finds(check_style.check, "401 lines, at most 400")

    def test_finds_a_sleeping_test(self):
        self.write("core/CMakeLists.txt", "SOURCES tests/a_test.cpp\n")
        self.write("core/tests/a_test.cpp", "void f() { std::this_thread::sleep_for(one); }\n")
        self.assert_finds(check_style.check, "a test does not sleep")

    def test_finds_a_skipped_test(self):
        self.write("core/CMakeLists.txt", "SOURCES tests/a_test.cpp\n")
        for line in ["TEST(A, DISABLED_Works) {}\n", "TEST(A, Works) { GTEST_SKIP(); }\n"]:
            self.write("core/tests/a_test.cpp", line)
            self.assert_finds(check_style.check, "not skipped or disabled")

    def test_finds_a_source_that_nothing_compiles(self):
        self.write("core/CMakeLists.txt", "SOURCES src/a.cpp\n")
        self.write("core/src/forgotten.cpp", "")
        self.assert_finds(check_style.check, "listed in no CMakeLists.txt")

    def test_finds_a_public_header_that_is_not_installed(self):
        self.write("core/CMakeLists.txt", "SOURCES src/a.cpp\n")
        self.write("core/include/oncebox/a.hpp", "#pragma once\n")
        self.assert_finds(check_style.check, "listed in no CMakeLists.txt")

    def test_finds_a_file_name_in_camel_case(self):
        self.write("tools/CamelCase.py", "")
        self.assert_finds(check_style.check, "snake_case")
