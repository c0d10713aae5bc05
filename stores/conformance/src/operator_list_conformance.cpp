// Looking into a queue: lists with filters, counts, and paging that stays stable while rows change.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "oncebox/conformance/fixture.hpp"

namespace oncebox::conformance {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

class OperatorListConformance : public StoreConformance {
 protected:
  /// Lists what matches, oldest first, and checks that the count and the other order agree.
  Ids listed(const MessageFilter& filter) {
    const MessagePage page = queue_operator().list({.filter = filter});
    EXPECT_EQ(page.next, std::nullopt);
    EXPECT_EQ(queue_operator().count(filter), page.records.size());
    for (const MessageRecord& record : page.records) EXPECT_TRUE(filter.matches(record));
    Ids ids = ids_of(page.records);
    Ids backwards =
        ids_of(queue_operator().list({.filter = filter, .order = ListOrder::newest_first}).records);
    std::reverse(backwards.begin(), backwards.end());
    EXPECT_EQ(backwards, ids);
    return ids;
  }

  /// Follows a list to its end, a page of `limit` at a time; `meanwhile` runs between the pages.
  template <class Meanwhile>
  Ids follow(ListRequest request, Meanwhile meanwhile) {
    Ids ids;
    constexpr int kMaxPages = 1'000;
    for (int page_number = 0; page_number < kMaxPages; ++page_number) {
      const MessagePage page = queue_operator().list(request);
      EXPECT_LE(page.records.size(), request.limit);
      for (std::string& id : ids_of(page.records)) ids.push_back(std::move(id));
      if (!page.next) return ids;
      request.after = page.next;
      meanwhile(page_number);
    }
    ADD_FAILURE() << "the list did not end after " << kMaxPages << " pages";
    return ids;
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, OperatorListConformance, testing::ValuesIn(on_inbox()), case_name);

TEST_P(OperatorListConformance, EmptyQueueHasOneEmptyPage) {
  proves("R-30");
  EXPECT_TRUE(listed({}).empty());
}

TEST_P(OperatorListConformance, RecordsAreThoseThatFindAnswers) {
  proves("R-30", "R-01");
  put_every_situation();
  const MessagePage page = queue_operator().list({.payloads = ListPayloads::include});
  ASSERT_EQ(page.records.size(), std::size(kEverySituation));
  for (const MessageRecord& one : page.records) {
    MessageRecord expected = record(one.key.message_id.str());
    expected.attempts.clear();
    EXPECT_EQ(one, expected);
  }
}

TEST_P(OperatorListConformance, PayloadsAreLeftOutUnlessAskedFor) {
  proves("R-30");
  put_every_situation();
  for (const MessageRecord& one : queue_operator().list({}).records) {
    MessageRecord expected = record(one.key.message_id.str());
    if (expected.message) expected.message->payload = {};
    expected.attempts.clear();
    EXPECT_EQ(one, expected);
  }
}

TEST_P(OperatorListConformance, OrderIsThatOfTheFirstStorageWhateverHappensLater) {
  proves("R-30");
  put(Situation::seen, "c");
  enqueue(message("a"));
  advance(1s);
  enqueue(message("b", {.priority = 9}));
  enqueue(message("c"));
  settle(claim({.owner = alice, .limit = 1}).at(0), Fail{.error = "broken"});
  enqueue(message("a", {.payload = "newer"}));
  EXPECT_EQ(listed({}), (Ids{"c", "a", "b"}));
}

TEST_P(OperatorListConformance, FindAnswersInTheOrderOfItsKeys) {
  proves("R-01");
  enqueue_ids({"a", "b"});
  const std::vector<MessageKey> keys{key("b"), key("nobody"), key("a"), key("a", "paypal"),
                                     key("b")};
  const auto found = queue().find(keys);
  ASSERT_EQ(found.size(), keys.size());
  EXPECT_EQ(found[0], record("b"));
  EXPECT_EQ(found[1], std::nullopt);
  EXPECT_EQ(found[2], record("a"));
  EXPECT_EQ(found[3], std::nullopt);
  EXPECT_EQ(found[4], record("b"));
  EXPECT_TRUE(queue().find(std::vector<MessageKey>{}).empty());
}

TEST_P(OperatorListConformance, FindEndsBeforeItsRecordsHaveMoreBytes) {
  proves("R-30");
  for (const char* id : {"a", "b", "c", "d"})
    enqueue(message(id, {.payload = std::string(10, *id)}));
  const std::vector<MessageKey> keys = {key("none"), key("a"), key("b"), key("none"),
                                        key("c"),    key("d"), key("a")};
  const auto find = [&](std::span<const MessageKey> those, std::size_t bytes) {
    return queue().find_some(those, {.max_bytes = bytes});
  };
  const auto two = find(keys, 20);
  ASSERT_EQ(two.size(), 4U) << "a key that is not known has room";
  EXPECT_EQ(two[0], std::nullopt);
  EXPECT_EQ(two[1], record("a"));
  EXPECT_EQ(two[2], record("b"));
  EXPECT_EQ(two[3], std::nullopt);

  EXPECT_EQ(find(keys, 39).size(), 5U);
  EXPECT_EQ(find(keys, 49).size(), 6U) << "a repeated record takes room again";
  EXPECT_EQ(find(keys, 50).size(), 7U);
  const auto rest = find(std::span(keys).subspan(4), 1);
  ASSERT_EQ(rest.size(), 1U) << "the first is there whatever its size";
  EXPECT_EQ(rest[0], record("c"));
  EXPECT_EQ(queue().find(keys).size(), keys.size());
}

TEST_P(OperatorListConformance, FindAnswersEveryKeyHoweverMuchThatIs) {
  proves("R-30");
  constexpr std::size_t kBytes = std::size_t{7} << 20;
  const Ids ids = {"a", "b", "c"};
  std::vector<MessageKey> keys = {key("none")};
  for (const std::string& id : ids) {
    enqueue(message(id, {.payload = std::string(kBytes, 'x')}));
    keys.push_back(key(id));
  }
  const auto found = queue().find(keys);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0], std::nullopt);
  for (std::size_t i = 1; i < found.size(); ++i) {
    EXPECT_EQ(found[i].value().message.value().payload.size(), kBytes) << i;
  }
  EXPECT_EQ(follow({.payloads = ListPayloads::include}, [](int) {}), ids);
}

TEST_P(OperatorListConformance, FindLeavesPayloadsAndAttemptsOutWhenAskedTo) {
  proves("R-30");
  enqueue(message("a", {.payload = "0123456789", .headers = {{"kind", "gift"}}}));
  const std::vector<MessageKey> keys = {key("a")};
  settle(claim({.owner = alice}).at(0), Fail{.error = "broken"});
  ASSERT_EQ(record("a").attempts.size(), 1U);

  MessageRecord expected = record("a");
  expected.attempts.clear();
  expected.message->payload = {};
  const auto found = queue().find_some(keys, {.payloads = ListPayloads::omit});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0], expected);
}

TEST_P(OperatorListConformance, AttemptsTakeRoomToo) {
  proves("R-32");
  enqueue_ids({"a", "b"});
  for (const ClaimedMessage& claimed : claim({.owner = alice})) {
    settle(claimed, Fail{.error = std::string(1'000, 'e')});
  }
  const std::vector<MessageKey> keys = {key("a"), key("b")};
  EXPECT_EQ(queue().find_some(keys, {.max_bytes = 1'500}).size(), 1U);
  EXPECT_EQ(queue().find_some(keys, {.max_bytes = 4'000}).size(), 2U);
  EXPECT_EQ(queue().find_some(keys, {.payloads = ListPayloads::omit, .max_bytes = 1}).size(), 2U);
}

TEST_P(OperatorListConformance, PageEndsBeforeItsRecordsHaveMoreBytes) {
  proves("R-30");
  Ids all;
  for (int i = 0; i < 7; ++i) {
    const std::string payload(i == 3 ? 100 : 10, 'x');
    enqueue(message(std::to_string(i), {.payload = payload}));
    all.push_back(std::to_string(i));
  }
  const ListRequest request{.payloads = ListPayloads::include, .max_bytes = 25};
  const auto nothing = [](int) {};
  EXPECT_EQ(ids_of(queue_operator().list(request).records), (Ids{"0", "1"}));
  EXPECT_EQ(follow(request, nothing), all) << "one that is larger alone does not stop the list";
  ListRequest newest = request;
  newest.order = ListOrder::newest_first;
  EXPECT_EQ(ids_of(queue_operator().list(newest).records), (Ids{"6", "5"}));
  EXPECT_EQ(follow(newest, nothing), Ids(all.rbegin(), all.rend()));
  ListRequest filtered = request;
  filtered.filter.states = {State::ready};
  EXPECT_EQ(follow(filtered, nothing), all);

  ListRequest brief = request;
  brief.payloads = ListPayloads::omit;
  EXPECT_EQ(ids_of(queue_operator().list(brief).records), all) << "payloads left out take none";
  ListRequest exact = request;
  exact.filter.message_id = "3";
  const MessagePage only = queue_operator().list(exact);
  EXPECT_EQ(ids_of(only.records), Ids{"3"});
  EXPECT_EQ(only.next, std::nullopt);
}

TEST_P(OperatorListConformance, FilterByStatus) {
  proves("R-30", "R-02");
  put_every_situation();
  EXPECT_EQ(listed({.statuses = {Status::seen}}), Ids{"seen"});
  EXPECT_EQ(listed({.statuses = {Status::done}}), Ids{"done"});
  EXPECT_EQ(listed({.statuses = {Status::dead}}), Ids{"dead"});
  EXPECT_EQ(listed({.statuses = {Status::processing}}),
            (Ids{"lapsed", "leased", "waiting", "marked_processing", "ready"}));
  EXPECT_EQ(listed({.statuses = {Status::dead, Status::seen, Status::dead}}),
            (Ids{"dead", "seen"}));
}

TEST_P(OperatorListConformance, FilterByTopic) {
  proves("R-30", "R-20");
  for (const char* topic :
       {"order.created", "order.paid", "Order.Created", "order_paid", "stock"}) {
    enqueue(message(topic, {.topic = topic}));
  }
  put(Situation::seen, "no topic");
  EXPECT_EQ(listed({.topic = "order.paid"}), Ids{"order.paid"});
  EXPECT_EQ(listed({.topic = "order.*"}), (Ids{"order.created", "order.paid"}));
  EXPECT_EQ(listed({.topic = "order_*"}), Ids{"order_paid"});
  EXPECT_EQ(listed({.topic = "*"}).size(), 5U) << "a key without content has no topic";
  EXPECT_TRUE(listed({.topic = "order"}).empty());
}

TEST_P(OperatorListConformance, FilterBySourceAndMessageId) {
  proves("R-30", "R-01");
  for (const char* source : {"stripe", "paypal"}) {
    for (const char* id : {"a", "b"}) enqueue(message(id, {.source = source}));
  }
  EXPECT_EQ(listed({.source = "paypal"}), (Ids{"a", "b"}));
  EXPECT_EQ(listed({.message_id = "a"}), (Ids{"a", "a"}));
  EXPECT_EQ(listed({.source = "stripe", .message_id = "b"}), Ids{"b"});
  EXPECT_TRUE(listed({.source = "Stripe"}).empty());
  EXPECT_TRUE(listed({.message_id = "A"}).empty());
}

TEST_P(OperatorListConformance, FilterByPartitionKey) {
  proves("R-30", "R-29");
  enqueue(message("a", {.partition = "p"}));
  enqueue(message("b", {.partition = "q"}));
  enqueue(message("c"));
  enqueue(message("d", {.partition = "p"}));
  put(Situation::seen, "e");
  EXPECT_EQ(listed({.partition_key = "p"}), (Ids{"a", "d"}));
  EXPECT_TRUE(listed({.partition_key = "P"}).empty());
}

TEST_P(OperatorListConformance, FilterByPartOfTheError) {
  proves("R-30", "R-27");
  const std::map<std::string, std::string> errors{{"a", "timeout after 100% of the budget"},
                                                  {"b", "timeout after 1000 ms"},
                                                  {"c", "Timeout: no_route"},
                                                  {"d", "noXroute Ω[1]"}};
  for (const auto& [id, error] : errors) {
    enqueue(message(id));
    settle(claim_one(), Fail{.error = error});
  }
  put(Situation::dead, "e");
  EXPECT_EQ(listed({.error_contains = "timeout"}), (Ids{"a", "b"})) << "case matters";
  EXPECT_EQ(listed({.error_contains = "100%"}), Ids{"a"}) << "% is an ordinary character";
  EXPECT_EQ(listed({.error_contains = "no_route"}), Ids{"c"}) << "_ is an ordinary character";
  EXPECT_EQ(listed({.error_contains = "Ω[1]"}), Ids{"d"}) << "so are brackets";
  EXPECT_EQ(listed({.error_contains = "o"}), (Ids{"a", "b", "c", "d", "e"}));
  EXPECT_TRUE(listed({.error_contains = "\\"}).empty());
}

TEST_P(OperatorListConformance, ErrorOfALivingMessageIsFilteredToo) {
  proves("R-30");
  enqueue(message("a"));
  settle(claim_one(), Abandon{.error = "no route", .delay = 1s});
  enqueue(message("b"));
  EXPECT_EQ(listed({.error_contains = "no route"}), Ids{"a"});
}

TEST_P(OperatorListConformance, FilterByFirstSeenIncludesItsStartAndExcludesItsEnd) {
  proves("R-30", "IBX-025");
  const TimePoint start = now();
  for (const char* id : {"a", "b", "c"}) {
    put(Situation::seen, id);
    advance(10s);
  }
  queue().observe({.key = key("a")});
  EXPECT_EQ(listed({.first_seen = {.from = start + 10s}}), (Ids{"b", "c"}));
  EXPECT_EQ(listed({.first_seen = {.until = start + 10s}}), Ids{"a"});
  EXPECT_EQ(listed({.first_seen = {.from = start + 10s, .until = start + 10s + 1ms}}), Ids{"b"});
  EXPECT_TRUE(listed({.first_seen = {.from = start + 10s, .until = start + 10s}}).empty());
}

TEST_P(OperatorListConformance, FilterByTimeOfFinishLeavesOutTheUnfinished) {
  proves("R-30");
  const TimePoint start = now();
  put(Situation::dead, "dead at 0");
  advance(10s);
  put(Situation::done, "done at 10");
  advance(10s);
  put(Situation::dead, "dead at 20");
  enqueue(message("ready"));
  EXPECT_EQ(listed({.finished = {.from = start + 10s}}), (Ids{"done at 10", "dead at 20"}));
  EXPECT_EQ(listed({.finished = {.until = start + 20s}}), (Ids{"dead at 0", "done at 10"}));
  EXPECT_EQ(listed({.statuses = {Status::dead}, .finished = {.from = start + 1ms}}),
            Ids{"dead at 20"});
}

TEST_P(OperatorListConformance, AllConditionsOfAFilterMustHold) {
  proves("R-30");
  enqueue(message("a", {.topic = "order.paid", .partition = "p"}));
  settle(claim_one(), Fail{.error = "no route"});
  const MessageFilter whole{.statuses = {Status::dead},
                            .topic = "order.*",
                            .source = "stripe",
                            .message_id = "a",
                            .partition_key = "p",
                            .error_contains = "route",
                            .first_seen = {.from = now(), .until = now() + 1ms},
                            .finished = {.from = now(), .until = now() + 1ms}};
  EXPECT_EQ(listed(whole), Ids{"a"});
  std::vector<MessageFilter> misses(8, whole);
  misses[0].statuses = {Status::done};
  misses[1].topic = "stock.*";
  misses[2].source = "paypal";
  misses[3].message_id = "b";
  misses[4].partition_key = "q";
  misses[5].error_contains = "timeout";
  misses[6].first_seen = {.from = now() + 1ms};
  misses[7].finished = {.until = now()};
  for (const MessageFilter& miss : misses) EXPECT_TRUE(listed(miss).empty());
}

TEST_P(OperatorListConformance, PagesOfEverySizeMeetEveryRecordOnce) {
  proves("R-30");
  Ids expected;
  expected.reserve(12);
  for (int i = 0; i < 12; ++i) expected.push_back("m" + std::to_string(i));
  enqueue_ids(expected);
  for (std::size_t limit = 1; limit <= 13; ++limit) {
    SCOPED_TRACE(limit);
    const auto nothing = [](int) {};
    EXPECT_EQ(follow({.limit = limit}, nothing), expected);
    Ids reversed = follow({.order = ListOrder::newest_first, .limit = limit}, nothing);
    std::reverse(reversed.begin(), reversed.end());
    EXPECT_EQ(reversed, expected);
  }
}

TEST_P(OperatorListConformance, LastPageHasNoCursorEvenWhenItIsFull) {
  proves("R-30");
  enqueue_ids({"a", "b", "c", "d"});
  const MessagePage first = queue_operator().list({.limit = 2});
  ASSERT_TRUE(first.next);
  const MessagePage second = queue_operator().list({.after = first.next, .limit = 2});
  EXPECT_EQ(ids_of(second.records), (Ids{"c", "d"}));
  EXPECT_EQ(second.next, std::nullopt);
}

TEST_P(OperatorListConformance, PagesOfAFilteredListSkipWhatDoesNotMatch) {
  proves("R-30");
  Ids expected;
  for (int i = 0; i < 20; ++i) {
    const std::string id = "m" + std::to_string(i);
    const bool wanted = i % 3 == 0;
    enqueue(message(id, {.topic = wanted ? "wanted" : "other"}));
    if (wanted) expected.push_back(id);
  }
  EXPECT_EQ(follow({.filter = {.topic = "wanted"}, .limit = 2}, [](int) {}), expected);
}

TEST_P(OperatorListConformance, PagingIsStableWhileRowsComeGoAndChange) {
  proves("R-30");
  for (const ListOrder order : {ListOrder::oldest_first, ListOrder::newest_first}) {
    const std::string prefix = order == ListOrder::oldest_first ? "o" : "n";
    SCOPED_TRACE(prefix);
    // Of each three, one is left alone, one is removed at some time, and one changes all the while.
    Ids steady;
    std::vector<MessageKey> doomed;
    for (int i = 0; i < 30; ++i) {
      const std::string id = prefix + std::to_string(i);
      enqueue(message(id));
      if (i % 3 == 1) {
        queue().mark({.key = key(id), .as = MarkAs::dead});
        doomed.push_back(key(id));
      } else {
        steady.push_back(id);
      }
    }
    const auto meanwhile = [&](int page_number) {
      const std::string number = std::to_string(page_number);
      enqueue(message(fmt::format("{}new{}", prefix, number)));
      enqueue(message(steady[static_cast<std::size_t>(page_number) % steady.size()],
                      {.topic = "changed", .payload = "changed " + number, .priority = 5}));
      if (doomed.empty()) return;
      const std::vector<MessageKey> next{doomed.back()};
      queue_operator().purge(next);
      doomed.pop_back();
    };
    Ids met = follow({.order = order, .limit = 4}, meanwhile);
    std::erase_if(met, [&](const std::string& id) {
      return std::find(steady.begin(), steady.end(), id) == steady.end();
    });
    if (order == ListOrder::newest_first) std::reverse(met.begin(), met.end());
    EXPECT_EQ(met, steady) << "each that was there all the while, exactly once and in order";
  }
}

TEST_P(OperatorListConformance, CursorOutlivesTheRecordThatItStandsOn) {
  proves("R-30");
  for (const char* id : {"a", "b", "c", "d"}) put(Situation::dead, id);
  for (const ListOrder order : {ListOrder::oldest_first, ListOrder::newest_first}) {
    const MessagePage first = queue_operator().list({.order = order, .limit = 1});
    ASSERT_TRUE(first.next);
    const std::vector<MessageKey> keys{first.records[0].key};
    queue_operator().purge(keys);
    const MessagePage second =
        queue_operator().list({.order = order, .after = first.next, .limit = 1});
    EXPECT_EQ(ids_of(second.records), Ids{order == ListOrder::oldest_first ? "b" : "c"});
  }
}

TEST_P(OperatorListConformance, CursorWorksOnAnotherHandle) {
  proves("R-30", "IBX-105");
  enqueue_ids({"a", "b", "c"});
  const MessagePage first = queue_operator().list({.limit = 2});
  ASSERT_TRUE(first.next);
  const std::shared_ptr<Store> other = open();
  const Cursor handed_over(first.next->str());
  EXPECT_EQ(ids_of(operator_of(*other).list({.after = handed_over}).records), Ids{"c"});
}

TEST_P(OperatorListConformance, CursorThatNoListGaveIsRefused) {
  proves("R-30");
  enqueue_ids({"a", "b"});
  const std::string real = queue_operator().list({.limit = 1}).next.value().str();
  for (const std::string& text :
       {std::string(), std::string("garbage"), std::string("-1"), std::string("'; drop table"),
        std::string("\0\xFF", 2), std::string(100'000, '9'), real + "x", "x" + real}) {
    expect_refused("cursor " + testing::PrintToString(text.substr(0, 40)),
                   ErrorCode::invalid_argument,
                   [&] { (void)queue_operator().list({.after = Cursor(text)}); });
  }
}

TEST_P(OperatorListConformance, LookingChangesNothing) {
  proves("R-30");
  put_every_situation();
  advance(1h);
  const QueueDump before = dump();
  (void)queue_operator().list({});
  (void)queue_operator().count({});
  (void)queue_operator().stats();
  (void)queue().find(key("lapsed"));
  EXPECT_TRUE(unchanged(before, dump()));
  EXPECT_TRUE(record("lapsed").lease) << "nobody has reaped it";
}

}  // namespace oncebox::conformance
