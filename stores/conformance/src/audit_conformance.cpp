// Who changed what: nothing is done without a trace, and a trace without a result says so.

#include "oncebox/audit_trail.hpp"

#include <functional>

#include "oncebox/conformance/fixture.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;

class AuditConformance : public StoreConformance {
 protected:
  [[nodiscard]] AuditTrail& trail() { return store().audit(); }
  [[nodiscard]] AuditTrail& written() { return harness().trail_behind(store()); }

  AuditId begin(std::string actor, AuditAction action = AuditAction::revive) {
    return written().begin({.actor = std::move(actor), .action = action});
  }

  AuditId act(std::string actor) {
    const AuditId id = begin(std::move(actor));
    written().finish(id, {});
    return id;
  }

  /// The page that a request asks for, as actors.
  [[nodiscard]] std::vector<std::string> actors(const AuditListRequest& request = {}) {
    std::vector<std::string> names;
    for (const AuditRecord& record : trail().list(request).records) {
      names.push_back(record.entry.actor);
    }
    return names;
  }

  [[nodiscard]] AuditRecord only() {
    const std::vector<AuditRecord> records = trail().list().records;
    EXPECT_EQ(records.size(), 1U);
    return records.at(0);
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, AuditConformance, testing::ValuesIn(on_inbox()), case_name);

TEST_P(AuditConformance, EntryIsThereBeforeItHasAResult) {
  proves("IBX-102");
  EXPECT_TRUE(trail().list().records.empty());
  const AuditEntry entry{.actor = "alice",
                         .action = AuditAction::purge,
                         .part = AuditedPart::outbox,
                         .subject = R"({"filter":{"topic":"order.*"}})",
                         .reason = "€ and \"quotes\""};
  const AuditId id = written().begin(entry);
  AuditRecord expected{.id = id, .entry = entry, .begun_at = now()};
  EXPECT_EQ(only(), expected) << "nobody knows yet how it ended";
  advance(1s);
  const AuditResult result{.status = AuditStatus::failed, .changed = 7, .detail = "no\nway"};
  written().finish(id, result);
  expected.finished_at = now();
  expected.result = result;
  EXPECT_EQ(only(), expected);
  reopen();
  EXPECT_EQ(only(), expected);
}

TEST_P(AuditConformance, EveryActionPartAndStatusComesBack) {
  for (const AuditAction action : kAuditActions) {
    for (const AuditedPart part : kAuditedParts) {
      const AuditId id = written().begin({.actor = "alice", .action = action, .part = part});
      for (const AuditStatus status : kAuditStatuses) {
        written().finish(id, {.status = status});
        const AuditRecord record = trail().list({.limit = 1}).records.at(0);
        EXPECT_EQ(record.entry.action, action);
        EXPECT_EQ(record.entry.part, part);
        EXPECT_EQ(record.result->status, AuditStatus::succeeded) << "the first one counts";
      }
    }
  }
  const AuditId id = begin("bob");
  written().finish(id, {.status = AuditStatus::unknown});
  EXPECT_EQ(trail().list({.limit = 1}).records.at(0).result->status, AuditStatus::unknown);
}

TEST_P(AuditConformance, ResultOfAnEntryThatIsNotThereIsIgnored) {
  written().finish(AuditId{12'345}, {});
  EXPECT_TRUE(trail().list().records.empty());
}

TEST_P(AuditConformance, NumbersAreNeverUsedAgain) {
  const AuditId first = act("alice");
  EXPECT_EQ(written().cleanup({.retention = 0s}), 1U);
  reopen();
  const AuditId second = begin("bob");
  EXPECT_GT(second, first);
  written().finish(first, {.changed = 1});
  EXPECT_FALSE(only().result) << "the result of somebody else";
}

TEST_P(AuditConformance, PagesOfEverySizeMeetEveryEntryOnceTheNewestFirst) {
  std::vector<std::string> newest_first;
  for (int i = 0; i < 7; ++i) {
    begin(std::to_string(i));
    newest_first.insert(newest_first.begin(), std::to_string(i));
  }
  for (const std::size_t size : {1U, 2U, 6U, 7U, 8U}) {
    std::vector<std::string> met;
    AuditListRequest request{.limit = size};
    for (;;) {
      const AuditPage page = trail().list(request);
      for (const AuditRecord& record : page.records) met.push_back(record.entry.actor);
      if (!page.next) break;
      EXPECT_EQ(page.records.size(), size);
      request.after = page.next;
    }
    EXPECT_EQ(met, newest_first) << "pages of " << size;
  }
}

TEST_P(AuditConformance, PagesAreNotDisturbedByWhatComesAndGoes) {
  for (const char* name : {"a", "b", "c"}) act(name);
  const AuditPage first = trail().list({.limit = 1});
  ASSERT_EQ(first.records.at(0).entry.actor, "c");
  advance(1s);
  begin("new");
  EXPECT_EQ(actors({.after = first.next}), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(written().cleanup({.retention = 1s}), 3U);
  EXPECT_TRUE(actors({.after = first.next}).empty());
}

TEST_P(AuditConformance, EveryConditionOfAFilterMustHold) {
  begin("alice", AuditAction::revive);
  advance(1s);
  const TimePoint middle = now();
  begin("bob", AuditAction::purge);
  begin("alice", AuditAction::pause);
  advance(1s);
  begin("Alice", AuditAction::purge);
  using Names = std::vector<std::string>;
  EXPECT_EQ(actors({.filter = {.actor = "alice"}}), (Names{"alice", "alice"}));
  EXPECT_EQ(actors({.filter = {.actions = {AuditAction::purge}}}), (Names{"Alice", "bob"}));
  EXPECT_EQ(actors({.filter = {.actions = {AuditAction::pause, AuditAction::revive}}}),
            (Names{"alice", "alice"}));
  EXPECT_EQ(actors({.filter = {.begun = {.from = middle}}}), (Names{"Alice", "alice", "bob"}));
  EXPECT_EQ(actors({.filter = {.begun = {.until = middle}}}), Names{"alice"});
  EXPECT_EQ(actors({.filter = {.actor = "alice",
                               .actions = {AuditAction::pause, AuditAction::purge},
                               .begun = {.from = middle, .until = middle + 1ms}}}),
            Names{"alice"});
  EXPECT_EQ(actors({.filter = {.actor = "nobody"}}), Names{});
  const AuditPage page = trail().list({.filter = {.actor = "alice"}, .limit = 1});
  EXPECT_EQ(actors({.filter = {.actor = "alice"}, .after = page.next}), Names{"alice"});
}

TEST_P(AuditConformance, CleanupTakesWhatIsPastItsRetentionTheOldestFirstUpToTheLimit) {
  proves("IBX-098");
  for (const char* name : {"a", "b", "c"}) act(name);
  advance(10s);
  act("young");
  EXPECT_EQ(trail().cleanup({.retention = 10s + 1ms}), 0U);
  EXPECT_EQ(trail().cleanup({.retention = 10s, .limit = 2}), 2U);
  EXPECT_EQ(actors({.filter = {.actor = "c"}}).size(), 1U);
  EXPECT_EQ(trail().cleanup({.retention = 10s, .limit = 2}), 1U);
  EXPECT_TRUE(actors({.filter = {.actor = "c"}}).empty());
  EXPECT_EQ(actors({.filter = {.actor = "young"}}).size(), 1U);
}

TEST_P(AuditConformance, EntryWithoutAResultIsNeverRemoved) {
  proves("IBX-098,IBX-102");
  act("finished");
  const AuditId under_way = begin("under way");
  advance(10s);
  EXPECT_EQ(written().cleanup({.retention = 0s}), 1U);
  EXPECT_EQ(actors(), std::vector<std::string>{"under way"});
  // So a clean-up of all there is leaves its own trace.
  const std::size_t removed = audited(
      written(), {.actor = "cleaner", .action = AuditAction::cleanup},
      [&] { return written().cleanup({.retention = 0s}); }, std::identity());
  EXPECT_EQ(removed, 0U);
  EXPECT_EQ(actors(), (std::vector<std::string>{"cleaner", "under way"}));
  written().finish(under_way, {});
  EXPECT_EQ(written().cleanup({.retention = 0s}), 2U);
  EXPECT_EQ(actors(), std::vector<std::string>{});
}

TEST_P(AuditConformance, LongTextsAreCutAtACharacterAndSomebodyMustBeNamed) {
  proves("R-27");
  std::string text;
  for (int i = 0; i < 700; ++i) text += "€";  // three bytes each
  const AuditId id = written().begin({.actor = text, .subject = text, .reason = text});
  written().finish(id, {.status = AuditStatus::failed, .detail = text});
  const AuditRecord record = only();
  EXPECT_EQ(record.entry.actor, text.substr(0, 85 * 3));
  EXPECT_EQ(record.entry.subject, text.substr(0, 682 * 3));
  EXPECT_EQ(record.entry.reason, text.substr(0, 682 * 3));
  EXPECT_EQ(record.result->detail, text.substr(0, 682 * 3));
  EXPECT_EQ(error_of([&] { begin(""); }), ErrorCode::invalid_argument);
}

TEST_P(AuditConformance, WhatIsOutOfRangeIsRefused) {
  const auto expect_refused = [&](ErrorCode code, const std::function<void()>& call) {
    EXPECT_EQ(error_of(call), code);
  };
  for (const std::size_t limit : {std::size_t{0}, limits::kMaxListItems + 1}) {
    expect_refused(ErrorCode::out_of_range, [&] { (void)trail().list({.limit = limit}); });
  }
  for (const std::size_t limit : {std::size_t{0}, limits::kMaxBatchItems + 1}) {
    expect_refused(ErrorCode::out_of_range, [&] { trail().cleanup({.limit = limit}); });
  }
  for (const Duration retention : {-1ms, Duration(limits::kMaxRetention) + 1ms}) {
    expect_refused(ErrorCode::out_of_range, [&] { trail().cleanup({.retention = retention}); });
  }
  for (const char* const cursor : {"", "nonsense", "o1"}) {
    expect_refused(ErrorCode::invalid_argument,
                   [&] { (void)trail().list({.after = Cursor(cursor)}); });
  }
}

TEST_P(AuditConformance, ChangeIsFramedByItsTrace) {
  proves("IBX-102");
  const auto count = [](std::size_t changed) { return changed; };
  const std::size_t answer = audited(
      written(), {.actor = "alice"},
      [&] {
        EXPECT_FALSE(only().result);
        return std::size_t{3};
      },
      count);
  EXPECT_EQ(answer, 3U);
  EXPECT_EQ(only().result, (AuditResult{.changed = 3}));

  const auto fail_with = [&](ErrorCode code) {
    EXPECT_EQ(error_of([&] {
                audited(
                    written(), {.actor = "alice"},
                    [&]() -> std::size_t { throw Error(code, "lost"); }, count);
              }),
              code);
    return trail().list({.limit = 1}).records.at(0).result.value();
  };
  EXPECT_EQ(fail_with(ErrorCode::unavailable),
            (AuditResult{.status = AuditStatus::failed, .detail = "lost"}));
  EXPECT_EQ(fail_with(ErrorCode::outcome_unknown),
            (AuditResult{.status = AuditStatus::unknown, .detail = "lost"}));

  bool changed = false;
  EXPECT_TRUE(error_of([&] {
    audited(
        written(), {.actor = ""},
        [&] {
          changed = true;
          return std::size_t{1};
        },
        count);
  }));
  EXPECT_FALSE(changed) << "without a trace nothing is done";
}

}  // namespace oncebox::conformance
