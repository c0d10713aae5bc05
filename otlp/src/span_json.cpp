#include "span_json.hpp"

#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>
#include <variant>

#include "oncebox/content_hash.hpp"

namespace oncebox::otlp {

namespace {

namespace json = boost::json;

// SpanKind and StatusCode of opentelemetry/proto/trace/v1/trace.proto.
constexpr int kClient = 3;
constexpr int kProducer = 4;
constexpr int kConsumer = 5;
constexpr int kStatusError = 2;

int kind_of(SpanOperation operation) {
  switch (operation) {
    case SpanOperation::enqueue:
    case SpanOperation::publish:
      return kProducer;
    case SpanOperation::claim:
    case SpanOperation::handle:
      return kConsumer;
    case SpanOperation::settle:
      return kClient;
  }
  return kClient;
}

std::string_view operation_type(SpanOperation operation) {
  switch (operation) {
    case SpanOperation::enqueue:
    case SpanOperation::publish:
      return "send";
    case SpanOperation::claim:
      return "receive";
    case SpanOperation::handle:
      return "process";
    case SpanOperation::settle:
      return "settle";
  }
  return "process";
}

std::string attribute_name(std::string_view field) {
  if (field == "topic") return "messaging.destination.name";
  if (field == "message_id") return "messaging.message.id";
  if (field == "count") return "messaging.batch.message_count";
  return "oncebox." + std::string(field);
}

template <std::size_t Size>
std::string hex(const std::array<std::uint8_t, Size>& bytes) {
  return to_hex(std::string(bytes.begin(), bytes.end()));
}

json::object text_value(std::string_view text) { return {{"stringValue", text}}; }

// 64-bit numbers are texts in the JSON of protobuf.
json::object value_of(const LogField::Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    return {{"intValue", std::to_string(*number)}};
  }
  if (const auto* number = std::get_if<double>(&value)) return {{"doubleValue", *number}};
  if (const auto* flag = std::get_if<bool>(&value)) return {{"boolValue", *flag}};
  if (const auto* id = std::get_if<Uuid>(&value)) return text_value(id->to_string());
  return text_value(std::get<std::string_view>(value));
}

json::object attribute(std::string_view name, json::object value) {
  return {{"key", name}, {"value", std::move(value)}};
}

json::array attributes_of(const Span& span) {
  json::array all;
  all.push_back(attribute("messaging.system", text_value("oncebox")));
  all.push_back(attribute("messaging.operation.name", text_value(to_string(span.operation))));
  all.push_back(attribute("messaging.operation.type", text_value(operation_type(span.operation))));
  for (const LogField& field : span.fields) {
    all.push_back(attribute(attribute_name(field.name()), value_of(field.value())));
  }
  if (span.operation == SpanOperation::claim) {
    all.push_back(attribute("oncebox.queue", text_value(span.target)));
  }
  if (!span.error.empty()) all.push_back(attribute("error.type", text_value(span.error)));
  return all;
}

json::array links_of(const Span& span) {
  json::array links;
  for (const TraceContext& link : span.links) {
    links.push_back(json::object{{"traceId", hex(link.trace_id)}, {"spanId", hex(link.span_id)}});
  }
  return links;
}

}  // namespace

WallTimes::WallTimes(const Clock& clock) : clock_(clock), offset_ns_(offset_now()) {}

std::int64_t WallTimes::offset_now() const {
  using std::chrono::nanoseconds;
  return nanoseconds(clock_.now().time_since_epoch()).count() -
         nanoseconds(clock_.steady().time_since_epoch()).count();
}

std::int64_t WallTimes::nanoseconds(SteadyTime time) const noexcept {
  return std::chrono::nanoseconds(time.time_since_epoch()).count() + offset_ns_;
}

void WallTimes::follow() {
  constexpr std::int64_t kSetByHand = 100'000'000;
  const std::int64_t offset = offset_now();
  if (std::abs(offset - offset_ns_) > kSetByHand) offset_ns_ = offset;
}

std::string span_json(const Span& span, const WallTimes& times) {
  json::object object{
      {"traceId", hex(span.context.trace_id)},
      {"spanId", hex(span.context.span_id)},
      {"name", std::string(to_string(span.operation)) + ' ' + std::string(span.target)},
      {"kind", kind_of(span.operation)},
      {"startTimeUnixNano", std::to_string(times.nanoseconds(span.began_at))},
      {"endTimeUnixNano", std::to_string(times.nanoseconds(span.ended_at))},
      {"attributes", attributes_of(span)}};
  if (span.parent) object["parentSpanId"] = hex(*span.parent);
  if (!span.trace_state.empty()) object["traceState"] = span.trace_state;
  if (!span.links.empty()) object["links"] = links_of(span);
  if (!span.error.empty()) object["status"] = json::object{{"code", kStatusError}};
  return json::serialize(object);
}

std::string request_json(std::string_view service_name,
                         const std::map<std::string, std::string>& resource,
                         std::span<const std::string> spans) {
  json::array attributes;
  attributes.push_back(attribute("service.name", text_value(service_name)));
  for (const auto& [name, value] : resource) {
    attributes.push_back(attribute(name, text_value(value)));
  }
  std::string body = R"({"resourceSpans":[{"resource":{"attributes":)";
  body += json::serialize(attributes);
  body += R"(},"scopeSpans":[{"scope":{"name":"oncebox"},"spans":[)";
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (i > 0) body += ',';
    body += spans[i];
  }
  body += "]}]}]}";
  return body;
}

// The number is a text, or a number where a collector takes it easy.
std::uint64_t rejected_spans(std::string_view answer) noexcept {
  try {
    const json::value parsed = json::parse(answer);
    const json::value& number = parsed.at("partialSuccess").at("rejectedSpans");
    if (!number.is_string()) return number.to_number<std::uint64_t>();
    std::uint64_t rejected = 0;
    const json::string& text = number.get_string();
    std::from_chars(text.data(), text.data() + text.size(), rejected);
    return rejected;
  } catch (const std::exception&) {
    return 0;  // it says nothing of the kind
  }
}

}  // namespace oncebox::otlp
