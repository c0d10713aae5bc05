// The Idempotency-Key header: what the draft says, and what is stored for it.

#include "oncebox/receive/idempotent_http.hpp"

#include <gmock/gmock.h>

#include <future>
#include <limits>
#include <thread>

#include "counted_allocations.hpp"
#include "expect_error.hpp"
#include "oncebox/receive/received.hpp"
#include "receiver_fixture.hpp"

namespace oncebox {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class IdempotentHttpTest : public OnEachStore {
 protected:
  void use(const IdempotentHttpOptions& options) {
    service_ = std::make_unique<IdempotentHttp>(probe_.keys(), options,
                                                Surroundings{.logger = logger_, .clock = clock_});
  }
  /// Answers 201 with a number that grows.
  [[nodiscard]] IdempotentHttp::Operation charge() {
    return [this](ReceiveContext&) {
      const std::string number = std::to_string(++charges_);
      return HttpAnswer{.status = 201,
                        .headers = {{"content-type", "application/json"},
                                    {"Location", "/charges/" + number},
                                    {"Date", "now"}},
                        .body = "{\"charge\":" + number + "}"};
    };
  }
  [[nodiscard]] static HttpRequestView request(std::string_view key, std::string_view body = "42") {
    return {.method = "POST", .target = "/charges", .idempotency_key = key, .body = body};
  }
  HttpAnswer post(const HttpRequestView& request) { return service_->handle(request, charge()); }
  static void expect_problem(const HttpAnswer& answer, int status, std::string_view title) {
    EXPECT_EQ(answer.status, status);
    EXPECT_EQ(answer.header("Content-Type"), "application/problem+json");
    EXPECT_THAT(answer.body, HasSubstr("\"status\":" + std::to_string(status)));
    EXPECT_THAT(answer.body, HasSubstr(std::string(title)));
  }

  /// No lease is extended, however late the thread that would do it looks at the clock.
  void let_leases_lapse() {
    probe_.fail("extend", std::numeric_limits<int>::max(), testing::Fault::before);
  }

  std::unique_ptr<Store> store_ = make_store();
  KeysProbe probe_{store_->keys()};
  RecordingLogger logger_;
  int charges_ = 0;
  std::unique_ptr<IdempotentHttp> service_ = std::make_unique<IdempotentHttp>(
      probe_.keys(), IdempotentHttpOptions{}, Surroundings{.logger = logger_, .clock = clock_});
};
ONCEBOX_ON_EACH_STORE(IdempotentHttpTest);

TEST_P(IdempotentHttpTest, FirstAnswerIsReplayedWithItsStatusBodyAndHeaders) {
  const HttpAnswer first = post(request("\"key-1\""));
  EXPECT_EQ(first.header("Date"), "now");
  EXPECT_EQ(first.header("Idempotent-Replayed"), std::nullopt);
  const HttpAnswer expected{.status = 201,
                            .headers = {{"content-type", "application/json"},
                                        {"Location", "/charges/1"},
                                        {"Idempotent-Replayed", "true"}},
                            .body = "{\"charge\":1}"};
  EXPECT_EQ(post(request("\"key-1\"")), expected);
  EXPECT_EQ(post(request("key-1")), expected) << "without quotes it is the same key";
  EXPECT_EQ(charges_, 1);
}

TEST_P(IdempotentHttpTest, HeadersThatTheBodyNeedsAreReplayedAndThoseOfOneExchangeAreNot) {
  use({.dropped_headers = {"date", "Set-Cookie", "X-Request-Id"}, .replay_header = ""});
  const std::vector<HttpAnswer::Header> kept = {{"Content-Type", "text/csv"},
                                                {"Content-Encoding", "gzip"},
                                                {"Content-Disposition", "inline"},
                                                {"Cache-Control", "no-store"},
                                                {"Link", "</charges/2>; rel=\"next\""},
                                                {"Link", "</charges>; rel=\"up\""},
                                                {"Vary", "Accept"}};
  HttpAnswer first{.status = 200, .headers = kept, .body = "bytes"};
  first.headers.insert(first.headers.begin(), {{"Date", "now"},
                                               {"set-cookie", "a=1"},
                                               {"x-request-id", "7"},
                                               {"connection", "close,  X-Hop ,"},
                                               {"X-Hop", "1"},
                                               {"Keep-Alive", "timeout=5"},
                                               {"transfer-encoding", "chunked"},
                                               {"Trailer", "Expires"},
                                               {"TE", "trailers"},
                                               {"Upgrade", "h2c"},
                                               {"Content-Length", "5"}});
  const IdempotentHttp::Operation operation = [&](ReceiveContext&) { return first; };
  EXPECT_EQ(service_->handle(request("k"), operation), first);
  EXPECT_EQ(service_->handle(request("k"), operation),
            (HttpAnswer{.status = 200, .headers = kept, .body = "bytes"}));
}

TEST_P(IdempotentHttpTest, BodiesOfAnyBytesAreReplayed) {
  std::string bytes = "\n";
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  const IdempotentHttp::Operation answer = [&](ReceiveContext&) {
    return HttpAnswer{.body = bytes};
  };
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(service_->handle(request("k"), answer).body, bytes);
  }
}

TEST_P(IdempotentHttpTest, KeyThatComesWithAnotherRequestIsRefused) {
  post(request("k"));
  expect_problem(post(request("k", "43")), 422, "already used");
  HttpRequestView other = request("k");
  other.target = "/refunds";
  expect_problem(post(other), 422, "already used");
  other = request("k");
  other.method = "PATCH";
  expect_problem(post(other), 422, "already used");
  EXPECT_EQ(post(request("k")).status, 201) << "the first one is still known";
  EXPECT_EQ(charges_, 1);
}

TEST_P(IdempotentHttpTest, RunningRequestIsAConflictAndAnotherOneWithItsKeyIsRefused) {
  Gate gate;
  Watched<bool> began{false};
  auto first = std::async(std::launch::async, [&] {
    return service_->handle(request("k"), [&](ReceiveContext&) {
      began.change([](bool& value) { value = true; });
      gate.pass();
      return HttpAnswer{.status = 201};
    });
  });
  ASSERT_TRUE(began.wait_for(true));
  const HttpAnswer conflict = post(request("k"));
  expect_problem(conflict, 409, "is running");
  EXPECT_EQ(conflict.header("Retry-After"), "5");
  expect_problem(post(request("k", "43")), 422, "already used");
  gate.open();
  EXPECT_EQ(first.get().status, 201);
  EXPECT_EQ(post(request("k")).status, 201);
  EXPECT_EQ(charges_, 0);
}

TEST_P(IdempotentHttpTest, MissingOrMalformedKeyIsRefused) {
  expect_problem(post({.method = "POST", .target = "/charges"}), 400, "is missing");
  for (const char* malformed : {"", "  ", "\"\"", "\"  \"", "\"open", "a b", "a,b", "\"a\", \"b\"",
                                "\"a\"b", "\"\\x\"", "a\"b", "\"\xc3\xa4\"", "\"tab\there\""}) {
    expect_problem(post(request(malformed)), 400, "is malformed");
  }
  const std::string long_key(256, 'k');
  expect_problem(post(request(long_key)), 400, "is malformed");
  EXPECT_EQ(charges_, 0);
}

TEST(IdempotencyKeyHeader, IsAStringInOrWithoutQuotes) {
  EXPECT_EQ(parse_idempotency_key("\"8e03978e-40d5\""), "8e03978e-40d5");
  EXPECT_EQ(parse_idempotency_key("8e03978e-40d5"), "8e03978e-40d5");
  EXPECT_EQ(parse_idempotency_key(" \t\"a b\"  "), "a b");
  EXPECT_EQ(parse_idempotency_key(R"("a \"b\" \\ c")"), R"(a "b" \ c)");
  EXPECT_EQ(parse_idempotency_key("\"a\";version=1"), "a");
  EXPECT_EQ(parse_idempotency_key("\"a\" x"), std::nullopt);
}

TEST_P(IdempotentHttpTest, KeyNeedNotBeRequired) {
  use({.key_required = false});
  for (int times = 1; times <= 2; ++times) {
    EXPECT_EQ(post({.method = "POST", .target = "/charges"}).status, 201);
    EXPECT_EQ(charges_, times);
  }
  expect_problem(post(request("\"open")), 400, "is malformed");
}

TEST_P(IdempotentHttpTest, AnswersThatAskToTryAgainAreNotStored) {
  int status = 503;
  const IdempotentHttp::Operation operation = [&](ReceiveContext&) {
    return HttpAnswer{.status = std::exchange(status, 200)};
  };
  for (const int again : {408, 425, 429, 500, 503}) {
    const std::string key = std::to_string(again);
    status = again;
    EXPECT_EQ(service_->handle(request(key), operation).status, again);
    EXPECT_EQ(service_->handle(request(key), operation).status, 200);
    status = 500;
    EXPECT_EQ(service_->handle(request(key), operation).status, 200) << "stored by now";
  }
  status = 404;
  EXPECT_EQ(service_->handle(request("gone"), operation).status, 404);
  EXPECT_EQ(service_->handle(request("gone"), operation).status, 404) << "a last word";
}

TEST_P(IdempotentHttpTest, ServerErrorsCanBeStored) {
  use({.is_final = [](int) { return true; }});
  int calls = 0;
  const IdempotentHttp::Operation fails = [&](ReceiveContext&) {
    ++calls;
    return HttpAnswer{.status = 500};
  };
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(service_->handle(request("k"), fails).status, 500);
  }
  EXPECT_EQ(calls, 1);
}

TEST_P(IdempotentHttpTest, OperationThatThrowsIsRunAgain) {
  EXPECT_THROW((void)service_->handle(
                   request("k"),
                   [](ReceiveContext&) -> HttpAnswer { throw std::runtime_error("declined"); }),
               std::runtime_error);
  EXPECT_EQ(store_->keys().find("http::k").value().status, KeyStatus::failed);
  EXPECT_EQ(post(request("k")).status, 201);
}

TEST_P(IdempotentHttpTest, KeyUnderWhichNothingWasDoneIsFreeForAnotherRequest) {
  const IdempotentHttp::Operation busy = [](ReceiveContext&) { return HttpAnswer{.status = 503}; };
  EXPECT_EQ(service_->handle(request("released"), busy).status, 503);
  EXPECT_EQ(post(request("released", "43")).status, 201);
  const IdempotentHttp::Operation fails = [](ReceiveContext&) -> HttpAnswer {
    throw std::runtime_error("declined");
  };
  EXPECT_THROW((void)service_->handle(request("failed"), fails), std::runtime_error);
  EXPECT_EQ(post(request("failed", "43")).status, 201);
  expect_problem(post(request("failed")), 422, "already used");
}

TEST_P(IdempotentHttpTest, LostAnswerOfTheStoreIsNoFailureOfTheOperation) {
  use({.verdict_tries = {.count = 2, .first_pause = 0s}});
  probe_.fail("complete", 100, testing::Fault::before);
  std::optional<CompleteRequest> completion;
  try {
    (void)post(request("k"));
  } catch (const UnrecordedSuccess& error) {
    completion = error.completion();
  }
  EXPECT_EQ(probe_.calls("complete"), 2) << "as often as the option says";
  EXPECT_EQ(probe_.calls("fail"), 0);
  EXPECT_EQ(store_->keys().find("http::k").value().status, KeyStatus::in_progress);
  expect_problem(post(request("k")), 409, "is running");

  ASSERT_TRUE(completion);
  EXPECT_EQ(store_->keys().complete(*completion), CompleteOutcome::processed);
  EXPECT_EQ(post(request("k")).body, "{\"charge\":1}") << "as if nothing had happened";
}

TEST_P(IdempotentHttpTest, OperationIsDoneAlthoughItsAnswerCannotBeJudged) {
  use({.is_final = [](int) -> bool { throw std::runtime_error("no idea"); }});
  EXPECT_EQ(post(request("k")).status, 201) << "the client is answered all the same";
  EXPECT_EQ(store_->keys().find("http::k").value().status, KeyStatus::processed);
  EXPECT_TRUE(logger_.contains("result could not be encoded"));
  expect_problem(post(request("k")), 409, "was not kept");
  expect_problem(post(request("k", "43")), 422, "already used");
  EXPECT_EQ(charges_, 1);
}

TEST_P(IdempotentHttpTest, OperationIsDoneAlthoughMemoryRunsOutForItsAnswer) {
  use({.is_final = [](int) {
    std::thread(fail_next_allocation_of_others).join();
    return true;
  }});
  EXPECT_EQ(post(request("k")).status, 201);
  EXPECT_EQ(store_->keys().find("http::k").value().status, KeyStatus::processed);
  expect_problem(post(request("k")), 409, "was not kept");
}

TEST_P(IdempotentHttpTest, AfterALostLeaseTheClientGetsTheAnswerThatIsReplayedLater) {
  let_leases_lapse();
  const IdempotentHttp::Operation slow = [&](ReceiveContext& context) {
    clock_.advance(IdempotentHttpOptions{}.lease);
    EXPECT_EQ(post(request("k")).body, "{\"charge\":1}") << "another one takes over";
    return charge()(context);
  };
  const HttpAnswer late = service_->handle(request("k"), slow);
  EXPECT_EQ(charges_, 2);
  EXPECT_EQ(late.body, "{\"charge\":1}");
  EXPECT_EQ(late, post(request("k")));
}

TEST_P(IdempotentHttpTest, AfterALostLeaseItsOwnAnswerIsTrueAsLongAsNoOtherIsStored) {
  let_leases_lapse();
  const auto lost_to = [&](const std::function<void()>& other) {
    return service_->handle(request("k"), [&, other](ReceiveContext& context) {
      clock_.advance(IdempotentHttpOptions{}.lease);
      other();
      return charge()(context);
    });
  };
  const HttpAnswer to_one_who_runs = lost_to(
      [&] { ASSERT_EQ(store_->keys().begin({.key = "http::k"}).status, BeginStatus::acquired); });
  EXPECT_EQ(to_one_who_runs.body, "{\"charge\":1}");
  clock_.advance(IdempotentHttpOptions{}.lease);
  const HttpAnswer to_another_request = lost_to([&] { post(request("k", "43")); });
  EXPECT_EQ(to_another_request.body, "{\"charge\":3}") << "the second one is not for this client";
}

TEST_P(IdempotentHttpTest, AfterALostLeaseAStoreThatIsAwayTakesNoAnswerFromTheClient) {
  let_leases_lapse();
  const HttpAnswer late = service_->handle(request("k"), [&](ReceiveContext& context) {
    clock_.advance(IdempotentHttpOptions{}.lease);
    post(request("k"));
    probe_.fail("find", 1, testing::Fault::before);
    return charge()(context);
  });
  EXPECT_EQ(late.body, "{\"charge\":2}");
}

TEST_P(IdempotentHttpTest, AnswerThatIsTooLargeIsRememberedButNotRepeated) {
  use({.max_answer_bytes = 300});
  const auto answer_of = [](std::size_t bytes) {
    return [bytes](ReceiveContext&) { return HttpAnswer{.body = std::string(bytes, 'x')}; };
  };
  EXPECT_EQ(service_->handle(request("large"), answer_of(300)).body.size(), 300U);
  expect_problem(service_->handle(request("large"), answer_of(300)), 409, "was not kept");
  expect_problem(service_->handle(request("large", "43"), answer_of(300)), 422, "already used");
  EXPECT_EQ(service_->handle(request("small"), answer_of(100)).body.size(), 100U);
  EXPECT_EQ(service_->handle(request("small"), answer_of(0)).body.size(), 100U);
}

TEST_P(IdempotentHttpTest, ScopesKeepClientsApart) {
  HttpRequestView alice = request("k");
  alice.scope = "a:b";
  HttpRequestView bob = request("b:k");
  bob.scope = "a";
  EXPECT_EQ(post(alice).body, "{\"charge\":1}");
  EXPECT_EQ(post(bob).body, "{\"charge\":2}");
  EXPECT_EQ(post(alice).body, "{\"charge\":1}");
}

TEST_P(IdempotentHttpTest, KeyIsForgottenAfterItsRetention) {
  use({.retention = 1h});
  post(request("k"));
  clock_.advance(1h);
  post(request("k", "43"));
  EXPECT_EQ(charges_, 2);
}

TEST_P(IdempotentHttpTest, ProblemsLinkToTheDocumentation) {
  use({.documentation_url = "https://example.com/keys"});
  const HttpAnswer answer = post({.method = "POST", .target = "/charges"});
  EXPECT_THAT(answer.body, HasSubstr("\"type\":\"https://example.com/keys\""));
  EXPECT_EQ(answer.header("link"), "<https://example.com/keys>; rel=\"describedby\"");
  post(request("k"));
  for (const HttpAnswer& other : {post(request("\"open")), post(request("k", "43"))}) {
    EXPECT_THAT(other.body, HasSubstr("\"type\":\"https://example.com/keys\""));
    EXPECT_TRUE(other.header("link"));
  }
}

TEST_P(IdempotentHttpTest, ResultOfSomebodyElseIsToldFromAnAnswer) {
  store_->keys().complete({.key = "http::k", .result = "something else"});
  expect_error(ErrorCode::corrupt, [&] { (void)post(request("k")); });
  store_->keys().mark_processed("http::without");
  expect_problem(post(request("without")), 409, "was not kept");
}

TEST_P(IdempotentHttpTest, OptionsOutOfRangeAreRefused) {
  expect_error(ErrorCode::out_of_range, [&] { use({.max_key_length = 0}); });
  expect_error(ErrorCode::out_of_range, [&] { use({.max_answer_bytes = (2 << 20)}); });
  expect_error(ErrorCode::out_of_range, [&] { use({.lease = 0s}); });
  expect_error(ErrorCode::out_of_range, [&] { use({.verdict_tries = {.count = 0}}); });
  expect_error(ErrorCode::invalid_argument, [&] { use({.is_final = nullptr}); });
  expect_error(ErrorCode::invalid_argument, [&] { use({.documentation_url = "a>\r\nb"}); });
}

}  // namespace
}  // namespace oncebox
