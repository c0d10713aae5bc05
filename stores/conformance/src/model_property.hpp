#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <charconv>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace oncebox::conformance {

/// How many sequences a property is tried with: `ONCEBOX_MODEL_RUNS`, or `otherwise`, of which a
/// sanitizer, being slow, tries a quarter. Throws when that is not a positive number.
inline int model_runs(int otherwise) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no test changes the environment.
  const char* const value = std::getenv("ONCEBOX_MODEL_RUNS");
#ifdef ONCEBOX_SANITIZED
  otherwise = (otherwise + 3) / 4;
#endif
  if (value == nullptr) return otherwise;
  const std::string_view text = value;
  int runs = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), runs);
  if (error == std::errc{} && end == text.end() && runs > 0) return runs;
  throw std::invalid_argument("ONCEBOX_MODEL_RUNS must be a positive number");
}

/// Checks a RapidCheck property as part of the running GoogleTest test. A failure shows the shrunk
/// counterexample, and how to run it again.
template <class Testable>
void check_property(int runs, Testable&& testable) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(test.test_suite_name()) + "." + test.name();
  const rc::detail::TestMetadata metadata{.id = name, .description = name};
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = model_runs(runs);

  const rc::detail::TestResult result =
      rc::detail::checkTestable(std::forward<Testable>(testable), metadata, params);
  if (result.template is<rc::detail::SuccessResult>()) return;

  std::ostringstream report;
  rc::detail::printResultMessage(result, report);
  if (result.template is<rc::detail::FailureResult>()) {
    rc::detail::Configuration again = rc::detail::configuration();
    again.reproduce.emplace(name, result.template get<rc::detail::FailureResult>().reproduce);
    report << "\n\nRun this failure again, already shrunk:\n  RC_PARAMS='"
           << rc::detail::configToMinimalString(again) << "' PROGRAM --gtest_filter='" << name
           << "'\nRun the whole search again:\n  ONCEBOX_MODEL_RUNS=" << params.maxSuccess
           << " RC_PARAMS='seed=" << params.seed << "' PROGRAM --gtest_filter='" << name << "'\n";
  }
  ADD_FAILURE() << report.str();
}

}  // namespace oncebox::conformance
