from sample_tree import SampleTree

import check_conformance

TEST_FILE = """
TEST_P(Enqueue, KeepsBothSources) {
  proves("IBX-001", "R-01");
  std::string brace = "}";
  char other = '{';  // }
  if (true) {
    auto raw = R"x(})x";
  }
  oncebox::conformance::proves("IBX-002");
}

TEST(Clock, Moves) { RecordProperty("requirement", "R-02"); }

RC_GTEST_PROP(Model, AgreesWithTheStore, (const std::vector<Step>& steps)) {
  proves("R-03");
}
"""

PROOFS = {
    "IBX-001": "`Enqueue.KeepsBothSources`",
    "IBX-002": "`Enqueue.KeepsBothSources`; open: the server shows the rest",
    "IBX-003": "type: a span cannot be null",
    "IBX-004": "`ctest:package.consumer`, `ctest:example.first_message`, `ctest:cli.work`",
    "IBX-005": "`ctest:declaration.payload_missing`, `ctest:declaration.well_declared`",
    "R-01": "`Enqueue.KeepsBothSources`",
    "R-02": "`Clock.Moves`",
    "R-03": "`Model.AgreesWithTheStore`",
}


class CheckConformance(SampleTree):
    def setUp(self):
        super().setUp()
        self.write("core/tests/a_test.cpp", TEST_FILE)
        self.write("tests/CMakeLists.txt", "add_test(NAME package.consumer COMMAND x)\n")
        self.write("examples/CMakeLists.txt", "oncebox_add_example(first_message SOURCES a.cpp)\n")
        self.write("apps/CMakeLists.txt", "oncebox_add_cli_test(work)\n")
        self.write(
            "core/CMakeLists.txt",
            "oncebox_add_compile_errors(declaration\n  HEADER a.hpp\n  SOURCES\n"
            "    tests/payload_missing.cpp\n    tests/well_declared.cpp)\n",
        )
        self.rows = {
            requirement: f"| {requirement} | what | {PROOFS.get(requirement, 'open: later')} |"
            for requirement in check_conformance.required_ids()
        }

    def write_page(self):
        table = "\n".join(self.rows.values())
        self.write("docs/conformance.md", f"All of R-01 to R-38:\n\n{table}\n")

    def assert_page_finds(self, expected):
        self.write_page()
        self.assert_finds(check_conformance.check, expected)

    def test_knows_all_requirements(self):
        self.assertEqual(len(check_conformance.required_ids()), 130 + 38 + 11 + 11 + 10)

    def test_passes_when_page_and_tests_agree(self):
        self.write_page()
        self.assert_passes(check_conformance.check)

    def test_finds_a_missing_page(self):
        self.assert_finds(check_conformance.check, "docs/conformance.md: missing")

    def test_finds_a_missing_row(self):
        del self.rows["IBX-130"]
        self.assert_page_finds("no row for IBX-130")

    def test_finds_a_row_twice(self):
        self.rows["again"] = self.rows["MSG-10"]
        self.assert_page_finds("MSG-10 has a row already")

    def test_finds_a_row_for_no_requirement(self):
        self.rows["more"] = "| IBX-131 | what | open: later |"
        self.assert_page_finds("IBX-131 is no requirement")

    def test_finds_a_malformed_row(self):
        self.rows["IBX-009"] = "| IBX-009 | open: later |"
        self.assert_page_finds("IBX-009: a row is")

    def test_finds_a_row_without_proof(self):
        self.rows["IBX-009"] = "| IBX-009 | what | tested |"
        self.assert_page_finds("IBX-009: a proof is")

    def test_finds_an_imaginary_test(self):
        self.rows["IBX-009"] = "| IBX-009 | what | `Enqueue.Imaginary` |"
        self.assert_page_finds("IBX-009: there is no test Enqueue.Imaginary")

    def test_finds_an_imaginary_ctest_test(self):
        self.rows["IBX-009"] = "| IBX-009 | what | `ctest:imaginary` |"
        self.assert_page_finds("IBX-009: no CMake file adds the test ctest:imaginary")

    def test_finds_a_test_that_does_not_name_the_id(self):
        self.rows["IBX-009"] = "| IBX-009 | what | `Clock.Moves` |"
        self.assert_page_finds('Clock.Moves (core/tests/a_test.cpp:12) lacks proves("IBX-009")')

    def test_finds_a_test_that_its_row_does_not_name(self):
        self.rows["R-02"] = "| R-02 | what | open: later |"
        self.assert_page_finds("Clock.Moves proves R-02, but its row does not name it")

    def test_finds_a_test_that_proves_no_requirement(self):
        self.write("core/tests/b_test.cpp", 'TEST(B, C) { proves("KIN-12"); }\n')
        self.assert_page_finds("B.C proves KIN-12, which is no requirement")

    def test_finds_a_claim_outside_of_a_test(self):
        self.write("core/tests/b_test.cpp", 'void shared() { proves("R-02"); }\n')
        self.assert_page_finds("b_test.cpp:1: proves() outside of a test")
