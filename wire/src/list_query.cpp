// A list as the query of a URL: the same names as a filter in JSON, and some of its own.
#include <array>
#include <optional>

#include "json_reader.hpp"
#include "oncebox/wire/dead_json.hpp"
#include "oncebox/wire/encoding.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "query.hpp"
#include "words.hpp"

namespace oncebox::wire {

namespace {

constexpr std::array<std::string_view, 12> kFilterParameters = {
    "topic",        "exactTopic",    "source",        "messageId",
    "partitionKey", "errorContains", "firstSeenFrom", "firstSeenUntil",
    "finishedFrom", "finishedUntil", "expiresAfter",  "limit",
};
constexpr auto kListParameters = joined(
    kFilterParameters, std::array<std::string_view, 7>{"status", "state", "waitingFor", "order",
                                                       "payloads", "maxBytes", "after"});
constexpr auto kDeadGroupsParameters =
    joined(kFilterParameters, std::array<std::string_view, 1>{"maxMessages"});

MessageFilter read_query_filter(const Query& query) {
  MessageFilter filter{
      .statuses = query.get("status", parse_words<Status>).value_or(std::vector<Status>()),
      .states = query.get("state", parse_words<State>).value_or(std::vector<State>()),
      .waiting_for =
          query.get("waitingFor", parse_words<WaitingFor>).value_or(std::vector<WaitingFor>()),
      .topic = query.name<TopicPattern>("topic"),
      .source = query.name<Source>("source"),
      .message_id = query.name<MessageId>("messageId"),
      .partition_key = query.name<PartitionKey>("partitionKey"),
      .error_contains = query.name<std::string>("errorContains"),
      .first_seen = {query.time("firstSeenFrom"), query.time("firstSeenUntil")},
      .finished = {query.time("finishedFrom"), query.time("finishedUntil")},
      .expires_after = query.time("expiresAfter")};
  if (const std::optional<Topic> exact = query.name<Topic>("exactTopic")) {
    if (filter.topic) {
      throw Error(ErrorCode::invalid_argument, "exactTopic: there is a topic already");
    }
    filter.topic = TopicPattern(*exact);
  }
  return filter;
}

ListPayloads parse_payloads(const std::string& value, const Place& place) {
  if (value != "true" && value != "false") place.fail("true or false was expected");
  return value == "true" ? ListPayloads::include : ListPayloads::omit;
}

}  // namespace

ListRequest read_list_query(std::span<const QueryParameter> parameters) {
  const Query query(parameters, kListParameters);
  ListRequest request{.filter = read_query_filter(query)};
  request.order =
      query
          .get("order", [](const std::string& value,
                           const Place& place) { return parse_word<ListOrder>(value, place); })
          .value_or(request.order);
  request.payloads = query.get("payloads", parse_payloads).value_or(request.payloads);
  request.after = query.name<Cursor>("after");
  request.limit = query.get("limit", parse_limit).value_or(request.limit);
  request.max_bytes = query.get("maxBytes", parse_limit).value_or(request.max_bytes);
  return request;
}

DeadGroupsRequest read_dead_groups_query(std::span<const QueryParameter> parameters) {
  const Query query(parameters, kDeadGroupsParameters);
  DeadGroupsRequest request{.filter = read_query_filter(query)};
  request.max_groups = query.get("limit", parse_limit).value_or(request.max_groups);
  request.max_records = query.get("maxMessages", parse_limit).value_or(request.max_records);
  return request;
}

std::string write_list_query(const ListRequest& request) {
  const MessageFilter& filter = request.filter;
  QueryText query;
  query.add_words("status", filter.statuses);
  query.add_words("state", filter.states);
  query.add_words("waitingFor", filter.waiting_for);
  if (filter.topic) {
    const bool is_exact_star = filter.topic->is_exact() && filter.topic->str().ends_with('*');
    query.add(is_exact_star ? "exactTopic" : "topic", filter.topic->str());
  }
  query.add("source", filter.source);
  query.add("messageId", filter.message_id);
  query.add("partitionKey", filter.partition_key);
  if (filter.error_contains) query.add("errorContains", *filter.error_contains);
  query.add("firstSeenFrom", filter.first_seen.from);
  query.add("firstSeenUntil", filter.first_seen.until);
  query.add("finishedFrom", filter.finished.from);
  query.add("finishedUntil", filter.finished.until);
  query.add("expiresAfter", filter.expires_after);
  query.add("order", word_of(request.order));
  query.add("payloads", request.payloads == ListPayloads::include ? "true" : "false");
  if (request.after) query.add("after", request.after->str());
  query.add("limit", std::to_string(request.limit));
  if (request.max_bytes != ListRequest{}.max_bytes) {
    query.add("maxBytes", std::to_string(request.max_bytes));
  }
  return std::move(query).take();
}

}  // namespace oncebox::wire
