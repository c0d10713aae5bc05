// Retries end at the same attempt, whoever works. The ways that take a process of their own are in
// apps/oncebox/tests/retries_test.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "dispatcher_fixture.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/dispatch/set_dispatcher.hpp"
#include "oncebox/driver/forwarding_store.hpp"
#include "recovery_fixture.hpp"

namespace oncebox {
namespace {

/// The attempts that a worker allows for some topics, of which the message's is "t". Nothing: it
/// leaves that to the rule of the topic.
struct OwnAttempts {
  std::optional<int> attempts = {};
  const char* topics = "*";
};

struct AttemptRule {
  int attempts = 0;
  std::optional<int> old_at = {};  ///< the attempt at which the message is old enough to be dead
};

struct RetryRow {
  std::string what;
  std::optional<AttemptRule> rule;
  OwnAttempts first;
  OwnAttempts second;
  int end = 0;  ///< the attempt that is the last one
  bool in_outbox = false;
};

constexpr std::chrono::seconds kRetryDelay{1};

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(' ') + 1 - first));
}

std::optional<int> number_in(const std::string& cell) {
  if (cell == "-") return std::nullopt;
  return std::stoi(cell);
}

std::optional<AttemptRule> rule_in(const std::string& cell) {
  if (cell == "-") return std::nullopt;
  constexpr std::string_view kOldAt = "old at";
  AttemptRule rule{.attempts = std::stoi(cell)};
  const std::size_t age = cell.find(kOldAt);
  if (age != std::string::npos) rule.old_at = std::stoi(cell.substr(age + kOldAt.size()));
  return rule;
}

/// The rows of tests/support/retries.txt, which says what they mean.
std::vector<RetryRow> read_table() {
  std::vector<RetryRow> rows;
  std::ifstream table(ONCEBOX_RETRIES_TABLE);
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with('#')) continue;
    std::vector<std::string> cells;
    std::istringstream parts(line);
    for (std::string cell; std::getline(parts, cell, '|');) cells.push_back(trimmed(cell));
    rows.push_back({.what = cells.at(0),
                    .rule = rule_in(cells.at(1)),
                    .first = {number_in(cells.at(2))},
                    .second = {number_in(cells.at(3))},
                    .end = std::stoi(cells.at(4)),
                    .in_outbox = cells.size() > 5 && cells.at(5) == "outbox"});
  }
  return rows;
}

/// One message at a time, which two workers fail in turns until it is dead.
class RetriesTest : public OnEachStore {
 protected:
  struct Way {
    std::string_view name;
    /// Works until the message has failed once.
    std::function<void(const OwnAttempts&)> fail_once;
  };

  [[nodiscard]] std::vector<Way> ways() {
    std::vector<Way> all{
        {"handle", [this](const OwnAttempts& own) { fail_with_handle(store_->inbox(), own); }},
        {"dispatcher",
         [this](const OwnAttempts& own) { fail_in_dispatcher(store_->inbox(), plain(), own); }},
        {"set dispatcher",
         [this](const OwnAttempts& own) { fail_in_set_dispatcher(plain(), own); }},
    };
    if (store_->inbox().transactional() != nullptr) {
      all.push_back({"transactional handler", [this](const OwnAttempts& own) {
                       fail_in_dispatcher(store_->inbox(), transactional(), own);
                     }});
      all.push_back({"transactional handler of a set dispatcher", [this](const OwnAttempts& own) {
                       fail_in_set_dispatcher(transactional(), own);
                     }});
    }
    return all;
  }
  [[nodiscard]] std::vector<Way> ways_of_outbox() {
    return {
        {"handle", [this](const OwnAttempts& own) { fail_with_handle(store_->outbox(), own); }},
        {"dispatcher",
         [this](const OwnAttempts& own) { fail_in_dispatcher(store_->outbox(), plain(), own); }},
        {"outbox dispatcher", [this](const OwnAttempts& own) { fail_in_outbox_dispatcher(own); }},
    };
  }

  /// Each row of the table, by each way and then each other one in turns.
  void expect_ends(QueueKind queue, std::span<const RetryRow> table, const std::vector<Way>& ways) {
    for (const RetryRow& row : table) {
      set_rule(queue, row.rule);
      for (const Way& first : ways) {
        for (const Way& second : ways) {
          EXPECT_EQ(failures_until_dead(queue, first, second, row), row.end)
              << row.what << ": " << first.name << ", then " << second.name;
        }
      }
    }
  }

  std::unique_ptr<Store> store_ = make_store();

 private:
  void set_rule(QueueKind queue, const std::optional<AttemptRule>& rule) {
    (void)store_->policies().remove(queue, "t");
    if (!rule) return;
    TopicPolicyChange change{.max_attempts = rule->attempts, .delays = {kRetryDelay}};
    // A message fails at once, and then once after each delay.
    if (rule->old_at) change.give_up_after = (*rule->old_at - 1) * kRetryDelay;
    store_->policies().update(queue, "t", change);
  }

  /// How often a new message failed before it was dead; 0 when that does not end.
  [[nodiscard]] int failures_until_dead(QueueKind kind, const Way& first, const Way& second,
                                        const RetryRow& row) {
    QueueStore& queue = kind == QueueKind::inbox ? store_->inbox() : store_->outbox();
    const Message message = message_of("m" + std::to_string(++messages_));
    queue.enqueue(message);
    for (int failures = 1; failures <= 20; ++failures) {
      const bool is_first = failures % 2 == 1;
      (is_first ? first : second).fail_once(is_first ? row.first : row.second);
      const MessageRecord record = queue.find(message.key).value();
      EXPECT_EQ(record.history.attempt, failures);
      EXPECT_EQ(record.attempts.size(), static_cast<std::size_t>(failures));
      if (record.status == Status::dead) return failures;
      clock_.set(std::max(clock_.now(), record.eligible_at.value()));
    }
    return 0;
  }

  static void fail_with_handle(QueueStore& queue, const OwnAttempts& own) {
    const ClaimResult claimed = queue.claim({.owner = OwnerToken::generate()});
    ASSERT_EQ(claimed.size(), 1U);
    Abandon abandon{.error = "no"};
    const bool is_for_it = own.attempts && TopicPattern(own.topics).matches("t");
    if (is_for_it) {
      abandon.delay = kRetryDelay;
      abandon.limit = AttemptLimit{*own.attempts};
    }
    EXPECT_EQ(queue.settle({delivery_of(claimed.messages.front()), abandon}),
              SettleStatus::settled);
  }

  void fail_in_dispatcher(QueueStore& queue, const Handlers& handlers, const OwnAttempts& own) {
    Dispatcher dispatcher(queue, handlers, options(own), {logger_, observer_, clock_});
    run_until_failed(dispatcher);
  }

  void fail_in_outbox_dispatcher(const OwnAttempts& own) {
    Publishers publishers;
    publishers.on("*", [this](const ClaimedMessage&, HandlerContext&) { fail(); });
    OutboxDispatcher dispatcher(store_->outbox(), publishers, options(own),
                                {logger_, observer_, clock_});
    run_until_failed(dispatcher);
  }

  void fail_in_set_dispatcher(const Handlers& handlers, const OwnAttempts& own) {
    StoreSet stores({{.name = "main", .url = "here"}},
                    [this](const StoreLocation&) -> std::unique_ptr<Store> {
                      return std::make_unique<ForwardingStore>(*store_);
                    },
                    {}, {.logger = logger_});
    SetDispatcher dispatcher(stores, handlers, round_robin(), {.dispatcher = options(own)},
                             {.logger = logger_, .clock = clock_});
    run_until_failed(dispatcher);
  }

  template <class AnyDispatcher>
  void run_until_failed(AnyDispatcher& dispatcher) {
    const int before = calls_.get();
    dispatcher.start();
    EXPECT_TRUE(calls_.wait([&](int calls) { return calls > before; }));
    EXPECT_TRUE(dispatcher.stop().complete());
  }

  [[nodiscard]] static DispatcherOptions options(const OwnAttempts& own) {
    DispatcherOptions options{.workers = 1};
    if (own.attempts) {
      options.retries.set(TopicPattern(own.topics),
                          {.backoff = FixedDelay{kRetryDelay}, .max_attempts = *own.attempts});
    }
    return options;
  }

  [[nodiscard]] Handlers plain() {
    Handlers handlers;
    handlers.on("*", [this](const ClaimedMessage&, HandlerContext&) { fail(); });
    return handlers;
  }
  [[nodiscard]] Handlers transactional() {
    Handlers handlers;
    handlers.on("*", [this](const ClaimedMessage&, Transaction&, HandlerContext&) { fail(); });
    return handlers;
  }
  void fail() {
    calls_.change([](int& calls) { ++calls; });
    throw std::runtime_error("no");
  }

  NullLogger logger_;
  Observer observer_;
  Watched<int> calls_{0};
  int messages_ = 0;
};

ONCEBOX_ON_EACH_STORE(RetriesTest);

TEST_P(RetriesTest, EndAtTheSameAttemptWhoeverWorks) {
  RecordProperty("requirement", "R-11,R-31,IBX-083,IBX-084");
  std::vector<RetryRow> rows = read_table();
  ASSERT_FALSE(rows.empty());
  rows.push_back({.what = "each has a policy for another topic",
                  .rule = AttemptRule{3},
                  .first = {2, "other"},
                  .second = {9, "u.*"},
                  .end = 3});
  expect_ends(QueueKind::inbox, rows, ways());
}

TEST_P(RetriesTest, EndAtTheSameAttemptWhoeverPublishes) {
  RecordProperty("requirement", "R-11,R-31");
  std::vector<RetryRow> rows = read_table();
  std::erase_if(rows, [](const RetryRow& row) { return !row.in_outbox; });
  ASSERT_FALSE(rows.empty());
  expect_ends(QueueKind::outbox, rows, ways_of_outbox());
}

}  // namespace
}  // namespace oncebox
