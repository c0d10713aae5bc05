// Groups of dead messages, on the wire.
#include "oncebox/wire/dead_json.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "noon.hpp"

namespace oncebox::wire {
namespace {

const DeadGroupId kGroup = DeadGroupId::parse("order:00ff17a92c03d5e8");

TEST(DeadGroupsJson, AreWritten) {
  const DeadGroups found{.groups = {{.id = kGroup,
                                     .error = "no \"address\"",
                                     .count = 2,
                                     .first_at = kNoon,
                                     .last_at = kNoon,
                                     .sample = {"shop", "1"}},
                                    {.id = {.fingerprint = "0000000000000000"},
                                     .error = "",
                                     .count = 1,
                                     .first_at = kNoon,
                                     .last_at = kNoon,
                                     .sample = {"shop", "2"}}},
                         .messages = 4,
                         .others = 1,
                         .complete = false};
  EXPECT_EQ(write_dead_groups(found),
            R"({"groups":[{"group":"order:00ff17a92c03d5e8","topic":"order",)"
            R"("fingerprint":"00ff17a92c03d5e8","error":"no \"address\"","count":2,)"
            R"("firstAt":"2026-01-31T12:00:00.000Z","lastAt":"2026-01-31T12:00:00.000Z",)"
            R"("sample":{"source":"shop","messageId":"1"}},)"
            R"({"group":"0000000000000000","fingerprint":"0000000000000000","error":"","count":1,)"
            R"("firstAt":"2026-01-31T12:00:00.000Z","lastAt":"2026-01-31T12:00:00.000Z",)"
            R"("sample":{"source":"shop","messageId":"2"}}],)"
            R"("messages":4,"others":1,"complete":false,"fingerprintVersion":1})");
}

TEST(DeadGroupsJson, ANoticeHasNoPayload) {
  DeadNotice notice{.store = "main",
                    .queue = "inbox",
                    .group = {.id = kGroup,
                              .error = "no address",
                              .count = 12,
                              .first_at = kNoon,
                              .last_at = kNoon,
                              .sample = {"shop", "1"}},
                    .threshold = 10};
  EXPECT_EQ(write_dead_notice(notice, kNoon),
            R"({"type":"oncebox.dead","timestamp":"2026-01-31T12:00:00.000Z",)"
            R"("data":{"store":"main","queue":"inbox","threshold":10,)"
            R"("group":"order:00ff17a92c03d5e8","topic":"order",)"
            R"("fingerprint":"00ff17a92c03d5e8","error":"no address","count":12,)"
            R"("firstAt":"2026-01-31T12:00:00.000Z","lastAt":"2026-01-31T12:00:00.000Z",)"
            R"("sample":{"source":"shop","messageId":"1"}}})");
  notice.more_groups = 7;
  EXPECT_NE(write_dead_notice(notice, kNoon).find(R"("threshold":10,"moreGroups":7,"group")"),
            std::string::npos);
}

TEST(DeadGroupsJson, AreAskedForByAQuery) {
  const std::vector<QueryParameter> query = {
      {"topic", "order.*"}, {"limit", "5"}, {"maxMessages", "7"}, {"errorContains", "no"}};
  const DeadGroupsRequest request = read_dead_groups_query(query);
  EXPECT_EQ(request.filter.topic, TopicPattern("order.*"));
  EXPECT_EQ(request.filter.error_contains, "no");
  EXPECT_EQ(request.max_groups, 5U);
  EXPECT_EQ(request.max_records, 7U);
  for (const QueryParameter& bad : {QueryParameter{"status", "Dead"}, QueryParameter{"after", "x"},
                                    QueryParameter{"limit", "many"}}) {
    expect_error(ErrorCode::invalid_argument,
                 [&] { (void)read_dead_groups_query(std::span(&bad, 1)); });
  }
}

TEST(DeadGroupsJson, AGroupIsRevivedAtARate) {
  const std::string json = R"({"group":"order:00ff17a92c03d5e8","limit":10000,"perSecond":2.5})";
  const ReviveCall call = read_revive(json);
  EXPECT_EQ(call.group, kGroup);
  EXPECT_EQ(call.pace.per_second, 2.5);
  EXPECT_TRUE(std::holds_alternative<MessageFilter>(call.which));
  EXPECT_EQ(write_revive(call), json);
  const ReviveCall part = read_revive(R"({"group":"00ff17a92c03d5e8","filter":{"source":"s"}})");
  EXPECT_EQ(part.group, DeadGroupId{.fingerprint = "00ff17a92c03d5e8"});
  EXPECT_EQ(std::get<MessageFilter>(part.which).source, Source("s"));
  EXPECT_EQ(write_paced({.count = 3, .lasts = Duration{1'500}}, true),
            R"({"count":3,"dryRun":true,"lastsSeconds":1.5})");
}

TEST(DeadGroupsJson, AGroupIsPurged) {
  const std::string json = R"({"group":"order:00ff17a92c03d5e8","limit":5,"dryRun":true})";
  EXPECT_EQ(read_purge(json).group, kGroup);
  EXPECT_EQ(write_purge(read_purge(json)), json);
}

TEST(DeadGroupsJson, WhatIsWrongWithAGroupIsSaid) {
  const auto refusal = [](const std::string& json) {
    return expect_error(ErrorCode::invalid_argument, [&] { (void)read_revive(json); });
  };
  EXPECT_TRUE(refusal(R"({"group":"order"})").starts_with("group: a group of dead messages is"));
  EXPECT_EQ(refusal(R"({"group":"00ff17a92c03d5e8","all":true})"),
            "only a filter goes with a group");
  EXPECT_EQ(refusal(R"({"group":"00ff17a92c03d5e8","keys":[]})"),
            "only a filter goes with a group");
  EXPECT_EQ(refusal(R"({"all":true,"perSecond":"2"})"), "perSecond: a number was expected");
}

}  // namespace
}  // namespace oncebox::wire
