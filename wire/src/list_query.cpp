// A list as the query of a URL: the same names as a filter in JSON, and some of its own.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "json_reader.hpp"
#include "oncebox/wire/encoding.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "words.hpp"

namespace oncebox::wire {

namespace {

constexpr std::array<std::string_view, 15> kListParameters = {
    "status",        "topic",         "exactTopic",    "source",         "messageId",
    "partitionKey",  "errorContains", "firstSeenFrom", "firstSeenUntil", "finishedFrom",
    "finishedUntil", "order",         "payloads",      "after",          "limit",
};

std::vector<Status> parse_statuses(std::string_view words, const Place& place) {
  std::vector<Status> statuses;
  for (std::size_t begin = 0; begin <= words.size();) {
    const std::size_t end = std::min(words.find(',', begin), words.size());
    statuses.push_back(parse_word<Status>(words.substr(begin, end - begin), place));
    begin = end + 1;
  }
  return statuses;
}

// The parameters of one query. Each may be there once.
class Query {
 public:
  explicit Query(std::span<const QueryParameter> parameters) : parameters_(parameters) {
    for (const QueryParameter& parameter : parameters) {
      const Place place(root_, parameter.name);
      const auto same_name = [&](const auto& other) { return other.name == parameter.name; };
      if (std::find(kListParameters.begin(), kListParameters.end(), parameter.name) ==
          kListParameters.end()) {
        place.fail("this parameter is not known" + hint(parameter.name, kListParameters));
      }
      if (std::count_if(parameters.begin(), parameters.end(), same_name) > 1) {
        place.fail("this parameter is there twice");
      }
    }
  }

  [[nodiscard]] const std::string* find(std::string_view name) const {
    for (const QueryParameter& parameter : parameters_) {
      if (parameter.name == name) return &parameter.value;
    }
    return nullptr;
  }

  /// `parse(value, place)` answers the value; its errors get the name.
  template <class Parse>
  auto get(std::string_view name, Parse parse) const
      -> std::optional<std::invoke_result_t<Parse, const std::string&, const Place&>> {
    const std::string* const value = find(name);
    if (value == nullptr) return std::nullopt;
    return parse(*value, Place(root_, name));
  }

  template <class Type>
  [[nodiscard]] std::optional<Type> name(std::string_view parameter) const {
    return get(parameter, [](const std::string& value, const Place& place) {
      return reading_at(place, [&] { return Type(value); });
    });
  }

  [[nodiscard]] std::optional<TimePoint> time(std::string_view parameter) const {
    return get(parameter, [](const std::string& value, const Place& place) {
      return reading_at(place, [&] { return parse_rfc3339(value); });
    });
  }

 private:
  const Place root_;
  const std::span<const QueryParameter> parameters_;
};

MessageFilter read_query_filter(const Query& query) {
  MessageFilter filter{
      .statuses = query.get("status", parse_statuses).value_or(std::vector<Status>()),
      .topic = query.name<TopicPattern>("topic"),
      .source = query.name<Source>("source"),
      .message_id = query.name<MessageId>("messageId"),
      .partition_key = query.name<PartitionKey>("partitionKey"),
      .error_contains = query.name<std::string>("errorContains"),
      .first_seen = {query.time("firstSeenFrom"), query.time("firstSeenUntil")},
      .finished = {query.time("finishedFrom"), query.time("finishedUntil")}};
  if (const std::optional<Topic> exact = query.name<Topic>("exactTopic")) {
    if (filter.topic) {
      throw Error(ErrorCode::invalid_argument, "exactTopic: there is a topic already");
    }
    filter.topic = TopicPattern(*exact);
  }
  return filter;
}

std::size_t parse_limit(const std::string& value, const Place& place) {
  std::size_t limit = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), limit);
  if (error != std::errc() || end != value.data() + value.size()) {
    place.fail("a whole number was expected");
  }
  return limit;
}

ListPayloads parse_payloads(const std::string& value, const Place& place) {
  if (value != "true" && value != "false") place.fail("true or false was expected");
  return value == "true" ? ListPayloads::include : ListPayloads::omit;
}

class QueryText {
 public:
  void add(std::string_view name, std::string_view value) {
    if (!text_.empty()) text_ += '&';
    text_ += name;
    text_ += '=';
    text_ += percent_encode(value);
  }
  template <class Tag>
  void add(std::string_view name, const std::optional<Name<Tag>>& value) {
    if (value) add(name, value->str());
  }
  void add(std::string_view name, const std::optional<TimePoint>& value) {
    if (value) add(name, format_rfc3339(*value));
  }
  [[nodiscard]] std::string take() && { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

ListRequest read_list_query(std::span<const QueryParameter> parameters) {
  const Query query(parameters);
  ListRequest request{.filter = read_query_filter(query)};
  request.order =
      query
          .get("order", [](const std::string& value,
                           const Place& place) { return parse_word<ListOrder>(value, place); })
          .value_or(request.order);
  request.payloads = query.get("payloads", parse_payloads).value_or(request.payloads);
  request.after = query.name<Cursor>("after");
  request.limit = query.get("limit", parse_limit).value_or(request.limit);
  return request;
}

std::string write_list_query(const ListRequest& request) {
  const MessageFilter& filter = request.filter;
  QueryText query;
  if (!filter.statuses.empty()) {
    std::string words;
    for (const Status status : filter.statuses) {
      if (!words.empty()) words += ',';
      words += word_of(status);
    }
    query.add("status", words);
  }
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
  query.add("order", word_of(request.order));
  query.add("payloads", request.payloads == ListPayloads::include ? "true" : "false");
  if (request.after) query.add("after", request.after->str());
  query.add("limit", std::to_string(request.limit));
  return std::move(query).take();
}

}  // namespace oncebox::wire
