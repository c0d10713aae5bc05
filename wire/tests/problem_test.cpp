#include "oncebox/wire/problem.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace oncebox::wire {
namespace {

constexpr ErrorCode kAllCodes[] = {
    ErrorCode::invalid_argument, ErrorCode::out_of_range, ErrorCode::not_found,
    ErrorCode::conflict,         ErrorCode::overloaded,   ErrorCode::unavailable,
    ErrorCode::timeout,          ErrorCode::cancelled,    ErrorCode::outcome_unknown,
    ErrorCode::unsupported,      ErrorCode::corrupt,      ErrorCode::internal,
};

TEST(Problem, IsWrittenAsRfc9457Says) {
  Problem problem = problem_of(Error(ErrorCode::invalid_argument, "topic: this field is missing"));
  problem.request_id = "r-1";
  EXPECT_EQ(
      write_problem(problem),
      R"({"type":"urn:oncebox:error:invalid_argument","title":"The request is not acceptable",)"
      R"("status":400,"code":"invalid_argument","detail":"topic: this field is missing",)"
      R"("requestId":"r-1"})");
}

TEST(Problem, EveryCodeHasTheStatusThatTheContractSays) {
  RecordProperty("requirement", "KIN-07");
  const std::vector<int> expected = {400, 400, 404, 409, 503, 503, 504, 503, 502, 501, 500, 500};
  for (std::size_t place = 0; place < expected.size(); ++place) {
    EXPECT_EQ(http_status(kAllCodes[place]), expected[place]) << to_string(kAllCodes[place]);
  }
}

TEST(Problem, AClientGetsTheSameErrorBack) {
  for (const ErrorCode code : kAllCodes) {
    const Problem problem = problem_of(Error(code, "what \"went\" wrong\n"));
    const Error error = error_of(problem.status, write_problem(problem));
    EXPECT_EQ(to_string(error.code()), to_string(code));
    EXPECT_STREQ(error.what(), "what \"went\" wrong\n");
  }
}

TEST(Problem, HttpsOwnCodesKeepTheirWordInTheText) {
  const Problem problem{
      .status = 401, .code = "unauthorized", .title = "No token", .detail = "send a bearer token"};
  const Error error = error_of(problem.status, write_problem(problem));
  EXPECT_EQ(to_string(error.code()), "invalid_argument");
  EXPECT_STREQ(error.what(), "unauthorized: send a bearer token");
}

TEST(Problem, AnAnswerOfSomebodyElseIsJudgedByItsStatus) {
  const std::vector<std::pair<int, ErrorCode>> expected = {
      {400, ErrorCode::invalid_argument}, {404, ErrorCode::not_found},
      {413, ErrorCode::invalid_argument}, {429, ErrorCode::overloaded},
      {500, ErrorCode::outcome_unknown},  {502, ErrorCode::outcome_unknown},
      {503, ErrorCode::outcome_unknown},  {504, ErrorCode::outcome_unknown},
      {302, ErrorCode::internal},
  };
  for (const auto& [status, code] : expected) {
    for (const std::string_view body : {"", "<html>Bad Gateway</html>", "[]", "{\"code\":5}"}) {
      const Error error = error_of(status, body);
      EXPECT_EQ(to_string(error.code()), to_string(code)) << status << " " << body;
      EXPECT_NE(std::string(error.what()).find(std::to_string(status)), std::string::npos);
    }
  }
}

TEST(Problem, ATextThatIsNoUtf8IsMended) {
  const Problem problem{.status = 500,
                        .code = "internal",
                        .title = "t",
                        .detail =
                            "a\xff"
                            "b"};
  EXPECT_STREQ(error_of(500, write_problem(problem)).what(),
               "a\xef\xbf\xbd"
               "b");
}

}  // namespace
}  // namespace oncebox::wire
