#include "oncebox/wire/audit_json.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"

namespace oncebox::wire {
namespace {

using namespace std::chrono_literals;

const TimePoint kAt = parse_rfc3339("2026-01-31T08:15:30.250Z");

TEST(AuditJson, PageComesBackAsItWas) {
  const AuditPage page{.records = {{.id = AuditId{8},
                                    .entry = {.actor = "ops", .action = AuditAction::pause},
                                    .begun_at = kAt},
                                   {.id = AuditId{7},
                                    .entry = {.actor = "ops",
                                              .action = AuditAction::revive_edited,
                                              .part = AuditedPart::outbox,
                                              .subject = R"({"count":1})",
                                              .reason = "why"},
                                    .begun_at = kAt,
                                    .finished_at = kAt + 1s,
                                    .result = AuditResult{.status = AuditStatus::unknown,
                                                          .changed = 3,
                                                          .detail = "lost"}}},
                       .next = Cursor("n7")};
  const std::string json = write_audit_page(page);
  EXPECT_EQ(json,
            R"({"entries":[{"id":8,"actor":"ops","action":"Pause","part":"Inbox",)"
            R"("begunAt":"2026-01-31T08:15:30.250Z"},)"
            R"({"id":7,"actor":"ops","action":"ReviveEdited","part":"Outbox",)"
            R"("subject":"{\"count\":1}","reason":"why","begunAt":"2026-01-31T08:15:30.250Z",)"
            R"("finishedAt":"2026-01-31T08:15:31.250Z","status":"Unknown","changed":3,)"
            R"("detail":"lost"}],"next":"n7"})");
  const AuditPage again = read_audit_page(json);
  EXPECT_EQ(again.records, page.records);
  EXPECT_EQ(again.next, page.next);
  EXPECT_EQ(write_audit_record(page.records[0]),
            R"({"id":8,"actor":"ops","action":"Pause","part":"Inbox",)"
            R"("begunAt":"2026-01-31T08:15:30.250Z"})");
}

TEST(AuditJson, QueryComesBackAsItWas) {
  const AuditListRequest request{.filter = {.actor = "o&s",
                                            .actions = {AuditAction::revive, AuditAction::purge},
                                            .begun = {.from = kAt, .until = kAt + 1s}},
                                 .after = Cursor("n7"),
                                 .limit = 5};
  EXPECT_EQ(write_audit_query(request),
            "actor=o%26s&action=Revive%2CPurge&from=2026-01-31T08%3A15%3A30.250Z"
            "&until=2026-01-31T08%3A15%3A31.250Z&after=n7&limit=5");
  const std::vector<QueryParameter> parameters{{"actor", "o&s"},
                                               {"action", "Revive,Purge"},
                                               {"from", "2026-01-31T08:15:30.250Z"},
                                               {"after", "n7"},
                                               {"limit", "5"},
                                               {"until", "2026-01-31T08:15:31.250Z"}};
  const AuditListRequest again = read_audit_query(parameters);
  EXPECT_EQ(again.filter.actor, request.filter.actor);
  EXPECT_EQ(again.filter.actions, request.filter.actions);
  EXPECT_EQ(again.filter.begun.from, request.filter.begun.from);
  EXPECT_EQ(again.filter.begun.until, request.filter.begun.until);
  EXPECT_EQ(again.after, request.after);
  EXPECT_EQ(again.limit, 5U);
  EXPECT_EQ(read_audit_query({}).limit, AuditListRequest{}.limit);
  for (const QueryParameter& bad :
       {QueryParameter{"action", "Nothing"}, QueryParameter{"action", ""},
        QueryParameter{"limit", "x"}, QueryParameter{"from", "now"}, QueryParameter{"who", "x"}}) {
    expect_error(ErrorCode::invalid_argument, [&] { (void)read_audit_query(std::span(&bad, 1)); });
  }
}

TEST(AuditJson, CleanupComesBackAsItWas) {
  const std::string json = R"({"retentionSeconds":1.5,"limit":9,"reason":"why"})";
  EXPECT_EQ(write_audit_cleanup({.retention = 1'500ms, .limit = 9, .reason = "why"}), json);
  EXPECT_EQ(read_audit_cleanup(json).retention, 1'500ms);
  EXPECT_EQ(read_audit_cleanup(json).limit, 9U);
  EXPECT_EQ(read_audit_cleanup(json).reason, "why");
  EXPECT_EQ(read_audit_cleanup("").retention, AuditCleanupRequest{}.retention);
  expect_error(ErrorCode::invalid_argument, [] { (void)read_audit_cleanup(R"({"x":1})"); });
}

TEST(AuditJson, SubjectSaysWhatWasSelected) {
  std::vector<MessageKey> keys{{"shop", "1"}};
  EXPECT_EQ(audit_subject(MessageSelection(keys)),
            R"({"count":1,"keys":[{"source":"shop","messageId":"1"}]})");
  keys.resize(1'000, {"shop", std::string(255, 'x')});
  const std::string many = audit_subject(MessageSelection(keys));
  EXPECT_TRUE(many.starts_with(R"({"count":1000,"keys":[)")) << many;
  EXPECT_LT(many.size(), 2'000U) << "the first few, so that nothing has to be cut";
  EXPECT_EQ(audit_subject(MessageSelection(MessageFilter{.topic = TopicPattern("a.*")})),
            R"({"filter":{"topic":"a.*"}})");
}

TEST(AuditJson, SubjectSaysWhatChangesInARule) {
  EXPECT_EQ(audit_subject(TopicPattern("a.*"),
                          {.max_attempts = 5, .backoff = std::nullopt, .paused = true}),
            R"({"topic":"a.*","maxAttempts":5,"backoffSeconds":null,"paused":true})");
  EXPECT_EQ(audit_removal(TopicPattern("a.*")), R"({"topic":"a.*","removed":true})");
}

}  // namespace
}  // namespace oncebox::wire
