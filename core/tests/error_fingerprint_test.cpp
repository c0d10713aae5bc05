// Error texts without what differs from one failure to the next.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "expect_error.hpp"
#include "oncebox/dead_group.hpp"

namespace oncebox {
namespace {

TEST(ErrorFingerprintTest, WhatDiffersFromOneFailureToTheNextBecomesAPlaceholder) {
  const std::vector<std::pair<std::string, std::string>> texts = {
      {"no address", "no address"},
      {"", ""},
      {"order 17 not found", "order <n> not found"},
      {"took 1.5 s, 30s allowed", "took <n> s, <n>s allowed"},
      {"connect to 10.0.0.17:5432 failed", "connect to <n>:<n> failed"},
      {"id 6f9619ff-8b86-d011-b42d-00c04fc964ff is gone", "id <uuid> is gone"},
      {"at 2026-01-31T08:15:30.250Z", "at <time>"},
      {"at 2026-01-31 08:15:30 it ended", "at <time> it ended"},
      {"since 2026-01-31, at 08:15:30", "since <time>, at <time>"},
      {"2026-01-31T08:15:30+01:00: late", "<time>: late"},
      {"key \"alice@example.com\" is taken", "key <text> is taken"},
      {"column 'it''s' or `name`", "column <text> or <text>"},
      {"can't read the customer's file", "can't read the customer's file"},
      {"a lone \" quote", "a lone \" quote"},
      {"fault at 0x7ffc1b2a", "fault at <hex>"},
      {"commit deadbeef01 is bad", "commit <hex> is bad"},
      {"decade of facade", "decade of facade"},
      {"token xoxb_2g7KqLmZp93aB", "token <id>"},
      {"user01234567 in utf8 over HTTP2", "user<n> in utf8 over HTTP2"},
      {"a\n\tb   c  ", "a b c"},
      {"Größe 12 überschritten", "Größe <n> überschritten"},
  };
  for (const auto& [text, normal] : texts) EXPECT_EQ(normalise_error(text), normal) << text;
}

TEST(ErrorFingerprintTest, WhatNamesTheMessageBecomesAPlaceholderToo) {
  const auto normal = [](const std::string& id, const std::string& error) {
    MessageRecord record{.key = {"shop", id}, .status = Status::dead};
    record.history.last_error = error;
    return normalise_error(record);
  };
  EXPECT_EQ(normal("g1", "no customer g1, g1x or xg1 in shop/g1"),
            "no customer <id>, g1x or xg1 in <id>/<id>");
  EXPECT_EQ(normal("a-b", "a-b is taken"), "<id> is taken");
  EXPECT_EQ(normal("1", "attempt 1 of 3"), normal("2", "attempt 1 of 3"));
  EXPECT_EQ(normal("g1", ""), "");
}

TEST(ErrorFingerprintTest, WhateverNamesTheMessageDoesNotSplitAGroup) {
  const auto normal = [](const auto& name_it, const std::string& name) {
    MessageRecord record{.key = {"shop", "m"}, .status = Status::dead};
    record.message = Message{.key = record.key, .topic = "t"};
    name_it(*record.message, name);
    record.history.last_error = "no customer " + name;
    return normalise_error(record);
  };
  const auto by_header = [&](std::string_view header) {
    return normal(
        [&](Message& message, const std::string& name) { message.headers.set(header, name); },
        "g-one");
  };
  for (const std::string_view header :
       {header_names::kCorrelationId, header_names::kCausationId, header_names::kIdempotencyKey}) {
    EXPECT_EQ(by_header(header), "no customer <id>") << header;
  }
  const auto by_partition = [](Message& message, const std::string& name) {
    message.partition_key = name;
  };
  EXPECT_EQ(normal(by_partition, "g-one"), "no customer <id>");
}

TEST(ErrorFingerprintTest, NormalisingAgainChangesNothingForTheFingerprint) {
  EXPECT_EQ(error_fingerprint("order 17 not found"), error_fingerprint("order 4711 not found"));
  EXPECT_EQ(error_fingerprint("no  address\n"), error_fingerprint("no address"));
  EXPECT_NE(error_fingerprint("no address"), error_fingerprint("no name"));
}

TEST(ErrorFingerprintTest, NeverChangesBetweenVersionsAndMachines) {
  ASSERT_EQ(kErrorFingerprintVersion, 1);
  const std::vector<std::pair<std::string, std::string>> vectors = {
      {"", "f8272f51676217ee"},
      {"no address", "9c6530a1491eccf8"},
      {"order 17 not found", "c9edf5524f7882a3"},
      {"id 6f9619ff-8b86-d011-b42d-00c04fc964ff is gone", "1628ef713f5a1575"},
  };
  for (const auto& [text, fingerprint] : vectors) {
    EXPECT_EQ(error_fingerprint(text), fingerprint) << text;
  }
}

TEST(ErrorFingerprintTest, AnyTextWhateverItsBytesHasOne) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  for (std::size_t from = 0; from < text.size(); ++from) {
    EXPECT_EQ(error_fingerprint(text.substr(from)).size(), 16U);
  }
  EXPECT_EQ(error_fingerprint(std::string(2'048, '\'')).size(), 16U);
}

TEST(DeadGroupIdTest, IsReadAsItIsWritten) {
  const DeadGroupId plain{.fingerprint = "00ff17a92c03d5e8"};
  const DeadGroupId with_topic{.topic = Topic("order:created*"), .fingerprint = plain.fingerprint};
  EXPECT_EQ(plain.str(), "00ff17a92c03d5e8");
  EXPECT_EQ(with_topic.str(), "order:created*:00ff17a92c03d5e8");
  EXPECT_EQ(DeadGroupId::parse(plain.str()), plain);
  EXPECT_EQ(DeadGroupId::parse(with_topic.str()), with_topic);
}

TEST(DeadGroupIdTest, WhatIsNoneIsRefused) {
  for (const std::string text :
       {"", "order.created", "00ff17a92c03d5e", "00FF17A92C03D5E8", ":00ff17a92c03d5e8",
        "order00ff17a92c03d5e8", "order:00ff17a92c03d5e8 "}) {
    expect_error(ErrorCode::invalid_argument, [&] { (void)DeadGroupId::parse(text); });
  }
}

}  // namespace
}  // namespace oncebox
