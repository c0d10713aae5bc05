// The bodies and queries of an operator's calls: each as an example, written and read.
#include "oncebox/wire/operator_json.hpp"

#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "noon.hpp"
#include "oncebox/wire/encoding.hpp"

namespace oncebox {

bool operator==(const TimeRange& a, const TimeRange& b) {
  return a.from == b.from && a.until == b.until;
}
bool operator==(const MessageFilter& a, const MessageFilter& b) {
  return a.statuses == b.statuses && a.states == b.states && a.waiting_for == b.waiting_for &&
         a.topic == b.topic && a.source == b.source && a.message_id == b.message_id &&
         a.partition_key == b.partition_key && a.error_contains == b.error_contains &&
         a.first_seen == b.first_seen && a.finished == b.finished &&
         a.expires_after == b.expires_after;
}
bool operator==(const ListRequest& a, const ListRequest& b) {
  return a.filter == b.filter && a.order == b.order && a.payloads == b.payloads &&
         a.after == b.after && a.limit == b.limit && a.max_bytes == b.max_bytes;
}
bool operator==(const QueueStats& a, const QueueStats& b) { return a.topics == b.topics; }

namespace wire {
namespace {

using namespace std::chrono_literals;

MessageFilter full_filter() {
  return {.statuses = {Status::dead, Status::seen},
          .states = {State::ready, State::waiting},
          .waiting_for = {WaitingFor::backoff},
          .topic = TopicPattern("order.*"),
          .source = Source("shop"),
          .message_id = MessageId("4&2=ü"),
          .partition_key = PartitionKey("p"),
          .error_contains = "100 %",
          .first_seen = {kNoon, kNoon + 1s},
          .finished = {kNoon + 2s, kNoon + 3s},
          .expires_after = kNoon + 4s};
}

std::vector<QueryParameter> split(const std::string& query) {
  std::vector<QueryParameter> parameters;
  for (std::size_t begin = 0; begin < query.size();) {
    const std::size_t end = std::min(query.find('&', begin), query.size());
    const std::string part = query.substr(begin, end - begin);
    const std::size_t equals = part.find('=');
    parameters.push_back(
        {part.substr(0, equals), percent_decode(part.substr(equals + 1)).value_or("broken")});
    begin = end + 1;
  }
  return parameters;
}

std::string refusal_of_query(const std::vector<QueryParameter>& parameters,
                             ErrorCode code = ErrorCode::invalid_argument) {
  return expect_error(code, [&] { (void)read_list_query(parameters); });
}

TEST(FilterJson, EveryConditionIsWrittenAndRead) {
  const std::string json =
      R"({"filter":{"status":["Dead","Seen"],"state":["Ready","Waiting"],)"
      R"("waitingFor":["Backoff"],"topic":"order.*","source":"shop",)"
      R"("messageId":"4&2=ü","partitionKey":"p","errorContains":"100 %",)"
      R"("firstSeenFrom":"2026-01-31T12:00:00.000Z","firstSeenUntil":"2026-01-31T12:00:01.000Z",)"
      R"("finishedFrom":"2026-01-31T12:00:02.000Z","finishedUntil":"2026-01-31T12:00:03.000Z",)"
      R"("expiresAfter":"2026-01-31T12:00:04.000Z"}})";
  EXPECT_EQ(write_filter(full_filter()), json);
  EXPECT_EQ(read_filter(json), full_filter());
  EXPECT_EQ(read_filter("{}"), MessageFilter{});
  EXPECT_EQ(read_filter(write_filter({})), MessageFilter{});
}

TEST(FilterJson, OneStatusNeedsNoArray) {
  EXPECT_EQ(read_filter(R"({"filter":{"status":"Dead"}})").statuses,
            std::vector<Status>{Status::dead});
  EXPECT_EQ(read_filter(R"({"filter":{"state":"Ready"}})").states,
            std::vector<State>{State::ready});
}

TEST(FilterJson, ATopicThatEndsInAStarCanBeMeantExactly) {
  const MessageFilter filter{.topic = TopicPattern(Topic("odd*"))};
  EXPECT_EQ(read_filter(write_filter(filter)), filter);
  EXPECT_EQ(read_list_query(split(write_list_query({.filter = filter}))).filter, filter);
}

TEST(ListQuery, EveryParameterIsWrittenAndRead) {
  const ListRequest request{.filter = full_filter(),
                            .order = ListOrder::newest_first,
                            .payloads = ListPayloads::include,
                            .after = Cursor("n 5+"),
                            .limit = 7,
                            .max_bytes = 1'000};
  EXPECT_EQ(write_list_query(request),
            "status=Dead%2CSeen&state=Ready%2CWaiting&waitingFor=Backoff&topic=order.%2A&source="
            "shop&messageId=4%262%3D%C3%BC"
            "&partitionKey=p&errorContains=100%20%25&firstSeenFrom=2026-01-31T12%3A00%3A00.000Z"
            "&firstSeenUntil=2026-01-31T12%3A00%3A01.000Z&finishedFrom=2026-01-31T12%3A00%3A02.000Z"
            "&finishedUntil=2026-01-31T12%3A00%3A03.000Z&expiresAfter=2026-01-31T12%3A00%3A04.000Z"
            "&order=NewestFirst&payloads=true&after=n%205%2B&limit=7&maxBytes=1000");
  EXPECT_EQ(read_list_query(split(write_list_query(request))), request);
  EXPECT_EQ(read_list_query({}), ListRequest{});
}

TEST(ListQuery, WhatIsWrongIsNamed) {
  EXPECT_EQ(refusal_of_query({{"statuses", "Dead"}}),
            "statuses: this parameter is not known; did you mean status?");
  EXPECT_EQ(refusal_of_query({{"limit", "1"}, {"limit", "2"}}),
            "limit: this parameter is there twice");
  EXPECT_EQ(refusal_of_query({{"status", "Dead,dead"}}),
            "status: this word is not known; did you mean Dead?");
  EXPECT_EQ(refusal_of_query({{"status", ""}}),
            "status: this word is not known; known are Seen, Processing, Done, Dead");
  EXPECT_EQ(refusal_of_query({{"limit", "many"}}), "limit: a whole number was expected");
  EXPECT_EQ(refusal_of_query({{"limit", "-1"}}), "limit: a whole number was expected");
  EXPECT_EQ(refusal_of_query({{"payloads", "yes"}}), "payloads: true or false was expected");
  EXPECT_EQ(refusal_of_query({{"order", "Oldest"}}),
            "order: this word is not known; known are OldestFirst, NewestFirst");
  EXPECT_EQ(refusal_of_query({{"topic", ""}}),
            "topic: the topic pattern is empty; give it a value");
  EXPECT_EQ(refusal_of_query({{"topic", "a"}, {"exactTopic", "b"}}),
            "exactTopic: there is a topic already");
  EXPECT_TRUE(refusal_of_query({{"firstSeenFrom", "today"}}).starts_with("firstSeenFrom: not an"));
}

TEST(CountJson, IsWrittenAndRead) {
  EXPECT_EQ(write_count(7), R"({"count":7})");
  EXPECT_EQ(read_count(write_count(7)), 7U);
}

TEST(StatsJson, TopicsAndTheirTotal) {
  const QueueStats stats{.topics = {{.seen = 1},
                                    {.topic = Topic("a"),
                                     .waiting = {.content = 1, .backoff = 2},
                                     .ready = 2,
                                     .leased = 4,
                                     .done = 5,
                                     .dead = 6,
                                     .oldest_ready_at = kNoon,
                                     .oldest_dead_at = kNoon + 1s}}};
  EXPECT_EQ(
      write_stats(stats),
      R"({"total":{"seen":1,"waiting":3,)"
      R"("waitingFor":{"content":1,"partition":0,"due":0,"backoff":2,"pause":0},"ready":2,)"
      R"("leased":4,"done":5,"dead":6,)"
      R"("oldestReadyAt":"2026-01-31T12:00:00.000Z","oldestDeadAt":"2026-01-31T12:00:01.000Z"},)"
      R"("topics":[{"seen":1,"waiting":0,)"
      R"("waitingFor":{"content":0,"partition":0,"due":0,"backoff":0,"pause":0},"ready":0,)"
      R"("leased":0,"done":0,"dead":0},)"
      R"({"topic":"a","seen":0,"waiting":3,)"
      R"("waitingFor":{"content":1,"partition":0,"due":0,"backoff":2,"pause":0},"ready":2,)"
      R"("leased":4,"done":5,"dead":6,)"
      R"("oldestReadyAt":"2026-01-31T12:00:00.000Z",)"
      R"("oldestDeadAt":"2026-01-31T12:00:01.000Z"}]})");
  EXPECT_EQ(read_stats(write_stats(stats)), stats);
}

TEST(StatsJson, APageAfterTheOtherTellsAllTopicsOnce) {
  QueueStats all{.topics = {{.seen = 1}}};
  for (const char* topic : {"a", "b", "c", "d"}) {
    all.topics.push_back({.topic = Topic(topic), .ready = 2});
  }
  QueueStats told;
  StatsQuery query{.limit = 1};
  for (int pages = 0; pages < 9; ++pages) {
    const std::string json = write_stats_page(all, query);
    EXPECT_TRUE(json.starts_with(R"({"total":{"seen":1,"waiting":0,)")) << "the total is of all";
    EXPECT_TRUE(json.find(R"("ready":8)") != json.npos) << json;
    StatsPage page = read_stats_page(json);
    EXPECT_LE(page.topics.size(), query.limit);
    told.topics.insert(told.topics.end(), page.topics.begin(), page.topics.end());
    if (!page.after) break;
    query.after = page.after;
    query.limit = 2;
  }
  EXPECT_EQ(told, all);
  const StatsPage behind = read_stats_page(write_stats_page(all, {.after = "bb", .limit = 1}));
  EXPECT_EQ(behind.topics.at(0).topic, Topic("c")) << "the topic of the cursor may be gone";
  EXPECT_TRUE(read_stats_page(write_stats_page({}, {})).topics.empty());
}

TEST(StatsJson, TheQueryOfAPage) {
  const auto again = [](const StatsQuery& query) {
    const std::string text = write_stats_query(query);
    std::vector<QueryParameter> parameters;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('&', begin), text.size());
      const std::string one = text.substr(begin, end - begin);
      const std::size_t equals = one.find('=');
      parameters.push_back(
          {one.substr(0, equals), percent_decode(one.substr(equals + 1)).value_or("?")});
      begin = end + 1;
    }
    return read_stats_query(parameters);
  };
  EXPECT_EQ(read_stats_query({}).limit, 1'000U);
  EXPECT_EQ(again({.limit = 7}).limit, 7U);
  EXPECT_FALSE(again({}).after);
  EXPECT_EQ(again({.after = ""}).after, "");
  EXPECT_EQ(again({.after = "ä+/&="}).after, "ä+/&=");
  for (const QueryParameter& wrong : std::vector<QueryParameter>{
           {"limit", "0"}, {"limit", "10001"}, {"after", "b"}, {"after", "YQ=="}, {"order", "x"}}) {
    EXPECT_THROW((void)read_stats_query({&wrong, 1}), Error) << wrong.name << wrong.value;
  }
}

TEST(DeadJson, ReviveByKeys) {
  const std::string json =
      R"({"keys":[{"source":"shop","messageId":"a"}],"limit":10000,"delaySeconds":2.5,)"
      R"("reason":"fixed"})";
  const ReviveCall call{.which = std::vector<MessageKey>{{"shop", "a"}},
                        .options = {.delay = 2500ms, .reason = "fixed"}};
  EXPECT_EQ(write_revive(call), json);
  const ReviveCall again = read_revive(json);
  EXPECT_EQ(std::get<0>(again.which), std::get<0>(call.which));
  EXPECT_EQ(again.options.delay, 2500ms);
  EXPECT_EQ(again.options.reason, "fixed");
  EXPECT_FALSE(again.dry_run);
}

TEST(ActJson, ByKeysByFilterOrAll) {
  const ActCall by_keys{.which = std::vector<MessageKey>{{"shop", "1"}},
                        .action = Cancel{},
                        .options = {.reason = "wrong"}};
  const std::string json =
      R"({"keys":[{"source":"shop","messageId":"1"}],"limit":10000,"reason":"wrong"})";
  EXPECT_EQ(write_act(by_keys), json);
  const ActCall again = read_act(json, Cancel{});
  EXPECT_EQ(std::get<0>(again.which), std::get<0>(by_keys.which));
  EXPECT_EQ(again.options.reason, "wrong");

  const ActCall later{.which = MessageFilter{.states = {State::ready}},
                      .action = Reschedule{kNoon},
                      .limit = 5,
                      .dry_run = true};
  EXPECT_EQ(write_act(later),
            R"({"filter":{"state":["Ready"]},"dueAt":"2026-01-31T12:00:00.000Z","limit":5,)"
            R"("dryRun":true})");
  EXPECT_EQ(std::get<Reschedule>(read_act(write_act(later), Reschedule{}).action).due_at, kNoon);
  EXPECT_EQ(write_act({.which = MessageFilter{}, .action = Delete{}}),
            R"({"all":true,"limit":10000})");

  const std::vector<ActOutcome> outcomes = {ActOutcome::changed, ActOutcome::refused,
                                            ActOutcome::expires_first, ActOutcome::unknown};
  EXPECT_EQ(write_acted(outcomes),
            R"({"results":["Changed","Refused","ExpiresFirst","Unknown"],"count":1})");
  EXPECT_EQ(read_acted(write_acted(outcomes)), outcomes);
}

TEST(ActJson, AFilterGoesWithKeys) {
  const ActCall call{.which = std::vector<MessageKey>{{"shop", "1"}},
                     .action = Delete{},
                     .options = {.only = MessageFilter{.states = {State::seen}}}};
  const std::string json =
      R"({"keys":[{"source":"shop","messageId":"1"}],"filter":{"state":["Seen"]},"limit":10000})";
  EXPECT_EQ(write_act(call), json);
  const ActCall again = read_act(json, Delete{});
  EXPECT_EQ(std::get<0>(again.which), std::get<0>(call.which));
  EXPECT_EQ(again.options.only.value().states, std::vector{State::seen});
  EXPECT_EQ(std::get<0>(read_purge(json).which), std::get<0>(call.which));
  EXPECT_EQ(read_purge(json).options.only.value().states, std::vector{State::seen});
  expect_error(ErrorCode::invalid_argument, [&] { (void)read_revive(json); });
  const PurgeCall purge{.which = call.which, .options = {.only = MessageFilter{.topic = "t"}}};
  EXPECT_EQ(read_purge(write_purge(purge)).options.only.value().topic, TopicPattern("t"));
  const ActCall no_condition{
      .which = call.which, .action = Delete{}, .options = {.only = MessageFilter{}}};
  EXPECT_EQ(write_act(no_condition),
            R"({"keys":[{"source":"shop","messageId":"1"}],"limit":10000})")
      << "a filter that says nothing";
  for (const std::string_view wrong :
       {R"({"keys":[],"filter":{}})", R"({"keys":[],"filter":{"topic":"t"},"all":true})",
        R"({"keys":[],"filter":{"topic":"t"},"group":"00ff17a92c03d5e8"})"}) {
    expect_error(ErrorCode::invalid_argument, [&] { (void)read_purge(wrong); });
  }
}

TEST(ActJson, WhatIsMissingOrDoesNotBelongThereIsNamed) {
  for (const std::string_view json : {"{}", R"({"all":false})", R"({"filter":{}})"}) {
    expect_error(ErrorCode::invalid_argument, [&] { (void)read_act(json, Delete{}); });
  }
  EXPECT_EQ(expect_error(ErrorCode::invalid_argument, [] { (void)read_act("{}", Cancel{}); }),
            "say which messages are meant, by one of keys, filter, and all: true");
  expect_error(ErrorCode::invalid_argument,
               [] { (void)read_act(R"({"all":true})", Reschedule{}); });
  expect_error(ErrorCode::invalid_argument,
               [] { (void)read_act(R"({"all":true,"group":"a:00ff17a92c03d5e8"})", Cancel{}); });
}

TEST(DeadJson, PurgeByFilterOrAll) {
  const PurgeCall by_filter{
      .which = MessageFilter{.topic = TopicPattern("a.*")}, .limit = 5, .dry_run = true};
  EXPECT_EQ(write_purge(by_filter), R"({"filter":{"topic":"a.*"},"limit":5,"dryRun":true})");
  const PurgeCall again = read_purge(write_purge(by_filter));
  EXPECT_EQ(std::get<MessageFilter>(again.which), std::get<MessageFilter>(by_filter.which));
  EXPECT_EQ(again.limit, 5U);
  EXPECT_TRUE(again.dry_run);

  EXPECT_EQ(write_purge({.which = MessageFilter{}}), R"({"all":true,"limit":10000})");
  EXPECT_EQ(std::get<MessageFilter>(read_purge(R"({"all":true})").which), MessageFilter{});
}

TEST(DeadJson, NobodyMeansEverythingByASlip) {
  for (const std::string_view json :
       {"", "{}", R"({"all":false})", R"({"keys":[],"all":true})",
        R"({"filter":{"topic":"a"},"all":true})", R"({"filter":{}})", R"({"filter":null})"}) {
    expect_error(ErrorCode::invalid_argument, [&] { (void)read_revive(json); });
    expect_error(ErrorCode::invalid_argument, [&] { (void)read_purge(json); });
  }
}

TEST(DeadJson, Outcomes) {
  const std::vector<ReviveOutcome> revived = {ReviveOutcome::revived, ReviveOutcome::not_dead,
                                              ReviveOutcome::unknown};
  EXPECT_EQ(write_revived(revived), R"({"results":["Revived","NotDead","Unknown"],"count":1})");
  EXPECT_EQ(read_revived(write_revived(revived)), revived);
  const std::vector<PurgeOutcome> purged = {PurgeOutcome::purged, PurgeOutcome::not_dead,
                                            PurgeOutcome::unknown};
  EXPECT_EQ(write_purged(purged), R"({"results":["Purged","NotDead","Unknown"],"count":1})");
  EXPECT_EQ(read_purged(write_purged(purged)), purged);
  EXPECT_EQ(write_matched(7, true), R"({"count":7,"dryRun":true})");
  EXPECT_EQ(read_count(write_matched(7, false)), 7U);
}

TEST(CleanupJson, IsWrittenAndRead) {
  const CleanupRequest defaults{.done_retention = 10s, .dead_retention = 20s, .limit = 3};
  const CleanupCall all_default = read_cleanup("{}", defaults);
  EXPECT_EQ(all_default.queue.done_retention, 10s);
  EXPECT_EQ(all_default.queue.dead_retention, 20s);
  EXPECT_EQ(all_default.queue.limit, 3U);
  EXPECT_TRUE(all_default.keys);

  const CleanupCall call{.queue = {.done_retention = 1500ms, .dead_retention = 0ms, .limit = 9},
                         .keys = false};
  const std::string json =
      R"({"doneRetentionSeconds":1.5,"deadRetentionSeconds":0,"limit":9,"keys":false})";
  EXPECT_EQ(write_cleanup(call), json);
  const CleanupCall again = read_cleanup(json, defaults);
  EXPECT_EQ(again.queue.done_retention, 1500ms);
  EXPECT_EQ(again.queue.dead_retention, 0ms);
  EXPECT_EQ(again.queue.limit, 9U);
  EXPECT_FALSE(again.keys);

  const CleanupCall keeps_dead{.queue = {.done_retention = 1s, .limit = 9}};
  EXPECT_EQ(write_cleanup(keeps_dead),
            R"({"doneRetentionSeconds":1,"deadRetentionSeconds":null,"limit":9,"keys":true})");
  EXPECT_EQ(read_cleanup(write_cleanup(keeps_dead), defaults).queue.dead_retention, std::nullopt);

  const CleanedUp result{.queue = {.done_removed = 1, .dead_removed = 2}, .keys_removed = 3};
  EXPECT_EQ(write_cleaned_up(result), R"({"doneRemoved":1,"deadRemoved":2,"keysRemoved":3})");
  EXPECT_EQ(read_cleaned_up(write_cleaned_up(result)).queue, result.queue);
  EXPECT_EQ(read_cleaned_up(write_cleaned_up(result)).keys_removed, 3U);
}

TEST(PauseJson, IsWrittenAndRead) {
  const TopicCall call = read_topic_call(R"({"topic":"order.*","reason":"too slow"})");
  EXPECT_EQ(call.topic, TopicPattern("order.*"));
  EXPECT_EQ(call.reason, "too slow");
  EXPECT_EQ(read_topic_call(R"({"topic":{"exact":"odd*"}})").topic, TopicPattern(Topic("odd*")));
  EXPECT_EQ(write_paused(std::vector<TopicPattern>{"order.*", "a"}),
            R"({"paused":["order.*","a"]})");
  EXPECT_EQ(write_paused({}), R"({"paused":[]})");
}

}  // namespace
}  // namespace wire
}  // namespace oncebox
