// How much memory the routes need. A program of its own: a sanitizer has memory for itself.

#include <gtest/gtest.h>

#include <malloc.h>

#include <algorithm>
#include <string>
#include <utility>

#include "api_fixture.hpp"

namespace oncebox::server {

namespace {

namespace json = boost::json;

TEST(NdjsonSize, AHundredThousandLinesNeedTheMemoryOfABatch) {
  const testing::FakeClock clock;
  const testing::TemporaryFolder folder;
  const auto store = make_store(StoreKind::sqlite, clock, folder);
  ApiUnderTest under_test(quiet_options(), {{"main", *store}}, clock);
  const auto exchange = under_test.begin(
      {.target = "/v1/messages", .fields = {{"Content-Type", "application/x-ndjson"}}});
  constexpr std::size_t kLines = 100'000;
  constexpr std::size_t kPerPiece = 1'000;
  std::size_t most = 0;
  std::size_t before = 0;
  std::string piece;
  for (std::size_t line = 0; line < kLines; ++line) {
    const std::string number = std::to_string(line % 20'000);
    piece += R"({"source":"s","messageId":"m)" + number + R"(","topic":"t","payload":{"n":)" +
             number + "}}\n";
    if ((line + 1) % kPerPiece != 0) continue;
    exchange->send_piece(std::exchange(piece, {}));
    const std::size_t used = mallinfo2().uordblks;
    if (before == 0) before = used;
    most = std::max(most, used);
  }
  exchange->end_body();
  const json::value summary = json_of(exchange->wait());
  EXPECT_EQ(summary.at("received"), kLines);
  EXPECT_EQ(summary.at("accepted"), 20'000);
  EXPECT_EQ(summary.at("duplicate"), 80'000);
  EXPECT_LT(most - before, std::size_t{16} << 20) << "the body has about 6 MB, its messages more";
}

}  // namespace

}  // namespace oncebox::server
