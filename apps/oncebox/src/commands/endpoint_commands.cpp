#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "acting_user.hpp"
#include "commands/commands.hpp"
#include "commands/policy_options.hpp"
#include "failure.hpp"
#include "oncebox/dead_query.hpp"
#include "oncebox/error.hpp"
#include "oncebox/publish/endpoints.hpp"
#include "oncebox/publish/resend.hpp"
#include "oncebox/wire/audit_json.hpp"
#include "oncebox/wire/endpoint_json.hpp"
#include "oncebox/wire/message_json.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "output.hpp"
#include "policy_values.hpp"
#include "store_options.hpp"
#include "table.hpp"
#include "values.hpp"

#ifdef ONCEBOX_WITH_HTTP
#include "oncebox/http/server_endpoints.hpp"
#include "oncebox/http_options.hpp"
#endif

namespace oncebox::app {
namespace {

constexpr Duration kTestLook = std::chrono::milliseconds{200};

/// What is said of an endpoint; what is not stays as it is.
struct EndpointArguments {
  StoreOptions store = {};
  std::optional<EndpointName> name = {};
  std::optional<std::string> url = {};
  std::vector<std::string> topics = {};
  std::vector<std::string> secrets = {};
  std::vector<std::string> headers = {};
  std::optional<Duration> timeout = {};
  std::optional<Duration> disable_after = {};
  bool allow_private = false;
  bool refuse_private = false;
  TopicPolicyChange policy = {};
  std::string reason = {};
};

// What is shown ----------------------------------------------------------------------------------

std::string topics_of(const Endpoint& endpoint) {
  std::vector<std::string> texts;
  for (const TopicPattern& pattern : endpoint.topics) texts.push_back(pattern.str());
  return fmt::format("{}", fmt::join(texts, " "));
}

Cell state_of(const EndpointRecord& record, const TopicPolicy& policy) {
  if (record.status.disabled) return {"disabled", Style::red};
  if (policy.paused.value_or(false)) return {"paused", Style::yellow};
  if (record.status.failing_since) {
    return {"failing since " + format_rfc3339(*record.status.failing_since), Style::yellow};
  }
  return {"works"};
}

TopicPolicy rule_of(Store& store, const EndpointName& name) {
  return store.policies().policies(QueueKind::deliveries).rule_of(TopicPattern(Topic(name.str())));
}

void print_endpoints(Output& out, Store& store, const std::vector<EndpointRecord>& records) {
  const TopicPolicies policies = store.policies().policies(QueueKind::deliveries);
  Table table({{"NAME"},
               {"STATE"},
               {"TOPICS", Align::left, Shrinks::yes},
               {"AT ONCE", Align::right},
               {"RATE", Align::right},
               {"URL", Align::left, Shrinks::yes}});
  for (const EndpointRecord& record : records) {
    const Endpoint& endpoint = record.endpoint;
    const TopicPolicy rule = policies.rule_of(TopicPattern(Topic(endpoint.name.str())));
    const TopicLimits& limits = rule.limits;
    table.add({{endpoint.name.str()},
               state_of(record, rule),
               {topics_of(endpoint)},
               {limits.max_concurrency ? fmt::format("{}", *limits.max_concurrency) : ""},
               {limits.rate ? format_rate(*limits.rate) : ""},
               {endpoint.url}});
  }
  table.print(out);
}

EndpointRecord endpoint_in(Store& store, const EndpointName& name) {
  const EndpointList list = store.endpoints().list();
  const EndpointRecord* const record = list.find(name.str());
  if (record == nullptr) {
    throw Failure(ExitCode::failed, fmt::format("there is no endpoint {}", name.str()));
  }
  return *record;
}

void show_endpoint(Console& console, const EndpointArguments& options, Store& store) {
  const EndpointRecord record = endpoint_in(store, *options.name);
  if (options.store.json) {
    console.out.line(wire::write_endpoint(record));
    return;
  }
  print_endpoints(console.out, store, {record});
  const TopicPolicy rule = rule_of(store, *options.name);
  if (const std::string delays = delays_of(rule); !delays.empty()) {
    console.out.line(fmt::format("retries: {}", delays));
  }
  if (record.status.disabled) {
    console.out.line(fmt::format("disabled since {}: {}",
                                 format_rfc3339(record.status.disabled->at),
                                 record.status.disabled->reason));
  }
}

// What is done -----------------------------------------------------------------------------------

/// Leaves a trace. A server leaves one itself.
template <class Change, class Count>
auto traced(Store& store, AuditAction action, std::string subject, const std::string& reason,
            Change change, Count count) {
  return audited(store.audit(),
                 {.actor = acting_user(),
                  .action = action,
                  .part = AuditedPart::endpoints,
                  .subject = std::move(subject),
                  .reason = reason},
                 change, count);
}

/// Puts what was said into an endpoint.
void change_endpoint(Endpoint& endpoint, const EndpointArguments& options) {
  if (options.url) endpoint.url = *options.url;
  if (!options.topics.empty()) {
    endpoint.topics = {options.topics.begin(), options.topics.end()};
  }
  if (!options.secrets.empty()) endpoint.secrets = options.secrets;
  for (const std::string& text : options.headers) {
    const NameAndValue header = parse_pair(text);
    endpoint.headers.set(header.name, header.value);
  }
  if (options.timeout) endpoint.timeout = options.timeout;
  if (options.disable_after) endpoint.disable_after = *options.disable_after;
  if (options.allow_private) endpoint.allow_private = true;
  if (options.refuse_private) endpoint.allow_private = false;
}

ExitCode save_from(Console& console, const EndpointArguments& options, bool is_new) {
  const OpenStore open(options.store);
  Store& store = open.store();
  const bool is_there = store.endpoints().list().find(options.name->str()) != nullptr;
  if (is_new && is_there) {
    throw Failure(ExitCode::failed,
                  fmt::format("the endpoint {} is there already; change it by: oncebox endpoints "
                              "edit {}",
                              options.name->str(), options.name->str()));
  }
  Endpoint endpoint =
      is_new ? Endpoint{.name = *options.name} : endpoint_in(store, *options.name).endpoint;
  change_endpoint(endpoint, options);
  publish::require_standard(endpoint);
  traced(
      store, AuditAction::set_endpoint, wire::audit_subject(endpoint), options.reason,
      [&] {
        return publish::save_endpoint(store, endpoint, options.policy, {.reason = options.reason});
      },
      [](EndpointSaved) -> std::size_t { return 1; });
  show_endpoint(console, options, store);
  return ExitCode::ok;
}

ExitCode remove_by(Console& console, const EndpointArguments& options) {
  const OpenStore open(options.store);
  const std::size_t removed = traced(
      open.store(), AuditAction::remove_endpoint, wire::audit_subject(*options.name),
      options.reason,
      [&]() -> std::size_t { return publish::remove_endpoint(open.store(), *options.name); },
      std::identity());
  if (options.store.json) {
    console.out.line(wire::write_count(removed));
  } else {
    console.out.line(removed > 0 ? "removed" : "there is no such endpoint");
  }
  return removed > 0 ? ExitCode::ok : ExitCode::failed;
}

ExitCode pause_or_resume(Console& console, const EndpointArguments& options, bool pauses) {
  const OpenStore open(options.store);
  Store& store = open.store();
  (void)endpoint_in(store, *options.name);
  if (!pauses) {
    const EndpointEvent enabled{EndpointEvent::Kind::enabled, SystemClock::shared().now(),
                                options.reason};
    traced(
        store, AuditAction::enable_endpoint, wire::audit_subject(*options.name), options.reason,
        [&] { return store.endpoints().note(*options.name, enabled); },
        [](const auto& noted) -> std::size_t { return noted && noted->changed ? 1 : 0; });
  }
  const TopicPattern topic{Topic(options.name->str())};
  const TopicPolicyChange change{.paused = pauses};
  traced(
      store, audit_action_of(change), wire::audit_subject(topic, change), options.reason,
      [&] { return store.policies().update(QueueKind::deliveries, topic, change); },
      [](const TopicPolicy&) -> std::size_t { return 1; });
  show_endpoint(console, options, store);
  return ExitCode::ok;
}

/// A message of its own, to this endpoint alone, whatever its topics.
ExitCode test_endpoint(Console& console, const EndpointArguments& options, Duration patience) {
  const OpenStore open(options.store);
  Store& store = open.store();
  const MessageKey delivery = publish::send_test(store, *options.name, patience);
  const SteadyTime until = SystemClock::shared().steady() + patience;
  std::optional<MessageRecord> record;
  do {
    std::this_thread::sleep_for(kTestLook);
    record = store.deliveries().find(delivery);
    const bool has_ended = record && record->status != Status::processing;
    if (has_ended || (record && record->history.attempt > 0)) break;
  } while (SystemClock::shared().steady() < until);
  const bool is_done = record && record->status == Status::done;
  if (!is_done) {
    // Nobody wants to hear of it later.
    store.deliveries_operator().act({&delivery, 1}, Cancel{}, {.reason = "a test"});
  }
  const std::string error = record && record->history.last_error
                                ? *record->history.last_error
                                : "nobody has delivered it: does a server publish here?";
  console.out.line(is_done ? "accepted" : error);
  return is_done ? ExitCode::ok : ExitCode::failed;
}

struct ResendArguments {
  StoreOptions store = {};
  std::optional<EndpointName> name = {};
  std::string since = {};
  bool failed = false;
  std::optional<Source> source = {};
  std::optional<MessageId> id = {};
  std::string rate = {};
  bool dry_run = false;
  std::string reason = {};
};

std::optional<double> per_second_of(const std::string& rate) {
  if (rate.empty()) return std::nullopt;
  const RateLimit limit = parse_rate(rate);
  return static_cast<double>(limit.count) / std::chrono::duration<double>(limit.per).count();
}

std::optional<TimePoint> since_of(const ResendArguments& options) {
  if (options.since.empty()) return std::nullopt;
  return parse_past(options.since, SystemClock::shared().now());
}

std::optional<MessageKey> key_of(const ResendArguments& options) {
  if (!options.source) return std::nullopt;
  return MessageKey{*options.source, *options.id};
}

publish::ResendResult resend_in(Store& store, const ResendArguments& options) {
  const publish::ResendRequest request{.endpoint = *options.name,
                                       .sent = {.from = since_of(options)},
                                       .pace = {per_second_of(options.rate)},
                                       .reason = options.reason,
                                       .dry_run = options.dry_run};
  const auto resend = [&] {
    if (options.failed) return publish::resend_failed(store, request);
    if (options.source) return publish::resend_one(store, request, *key_of(options));
    return publish::resend_since(store, request);
  };
  if (options.dry_run) return resend();
  return traced(store, AuditAction::resend, wire::audit_subject(*options.name), options.reason,
                resend, [](const publish::ResendResult& done) { return done.resent; });
}

#ifdef ONCEBOX_WITH_HTTP
/// A server does it itself: so no message goes to and fro, and its trail says what was done.
publish::ResendResult resend_at_server(const ResendArguments& options) {
  const http::ServerResent done = http::resend_to_endpoint(
      read_http_options(whole_url(options.store), own_credentials()), *options.name,
      {.since = since_of(options),
       .failed = options.failed,
       .key = key_of(options),
       .per_second = per_second_of(options.rate),
       .dry_run = options.dry_run,
       .reason = options.reason});
  return {done.resent, done.under_way, done.not_wanted};
}
#endif

publish::ResendResult resend_anywhere(const ResendArguments& options) {
#ifdef ONCEBOX_WITH_HTTP
  if (is_server(options.store.url)) return resend_at_server(options);
#endif
  const OpenStore open(options.store);
  return resend_in(open.store(), options);
}

ExitCode resend_by(Console& console, const ResendArguments& options) {
  const int ways = static_cast<int>(!options.since.empty()) + static_cast<int>(options.failed) +
                   static_cast<int>(options.source.has_value());
  if (ways != 1 || options.source.has_value() != options.id.has_value()) {
    throw Failure(ExitCode::usage, "say one of --since, --failed, and --source with --id");
  }
  const publish::ResendResult result = resend_anywhere(options);
  if (options.store.json) {
    console.out.line(wire::write_endpoint_resent(
        {result.resent, result.under_way, result.not_wanted, options.dry_run}));
  } else {
    console.out.line(fmt::format("{} {} sent again, {} were under way, {} are of other topics",
                                 result.resent, options.dry_run ? "would be" : "are",
                                 result.under_way, result.not_wanted));
  }
  return ExitCode::ok;
}

// The commands -----------------------------------------------------------------------------------

Argument name_argument(std::optional<EndpointName>& name) {
  return {.value = "NAME", .text = "the endpoint's name", .take = into(name)};
}

Option reason_option(std::string& reason) {
  return {.names = "--reason",
          .value = "TEXT",
          .text = "why, for the audit trail",
          .take = into(reason)};
}

std::vector<Option> endpoint_options(EndpointArguments& options) {
  return {
      {.names = "--topic",
       .value = "PATTERN",
       .text = "topics that go there, such as 'order.*'",
       .take = into(options.topics),
       .occurs = Occurs::repeatedly},
      {.names = "--secret",
       .value = "SECRET",
       .text = "what requests are signed with: env:NAME, file:PATH or literal:TEXT; several "
               "while the receiver changes from one to the next",
       .take = into(options.secrets),
       .occurs = Occurs::repeatedly},
      {.names = "--header",
       .value = "NAME=VALUE",
       .text = "a header of every request",
       .take = into(options.headers),
       .occurs = Occurs::repeatedly},
      {.names = "--timeout",
       .value = "DURATION",
       .text = "how long one attempt may take",
       .take = into(options.timeout)},
      {.names = "--disable-after",
       .value = "DURATION",
       .text = "when every delivery has failed for so long it is disabled; 0 means never",
       .take = into(options.disable_after)},
      {.names = "--allow-private",
       .text = "addresses of this machine and of private networks may be called; over HTTP the "
               "server has to permit that",
       .take = into(options.allow_private)},
      {.names = "--refuse-private", .text = "they may not", .take = into(options.refuse_private)}};
}

std::vector<Option> all_endpoint_options(EndpointArguments& options) {
  std::vector<Option> all = endpoint_options(options);
  for (auto&& more : {retry_options(options.policy), limit_options(options.policy),
                      std::vector<Option>{reason_option(options.reason)}}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

Command list_endpoints_command() {
  const auto options = std::make_shared<EndpointArguments>();
  return {.name = "list",
          .summary = "List the endpoints of a store",
          .options = store_options(options->store),
          .examples = {{"oncebox endpoints list", "Where messages of the outbox go"}},
          .run = [options](Console& console) {
            const OpenStore open(options->store);
            const EndpointList list = open.store().endpoints().list();
            if (options->store.json) {
              console.out.line(wire::write_endpoints(list, 0));
            } else {
              print_endpoints(console.out, open.store(), list.endpoints);
            }
            return ExitCode::ok;
          }};
}

Command show_endpoint_command() {
  const auto options = std::make_shared<EndpointArguments>();
  return {.name = "show",
          .summary = "Show an endpoint and how it works",
          .text = "Secrets are never shown.",
          .options = store_options(options->store),
          .arguments = {name_argument(options->name)},
          .examples = {{"oncebox endpoints show crm", "Also why it was disabled"}},
          .run = [options](Console& console) {
            const OpenStore open(options->store);
            show_endpoint(console, *options, open.store());
            return ExitCode::ok;
          }};
}

Command add_endpoint_command() {
  const auto options = std::make_shared<EndpointArguments>();
  return {
      .name = "add",
      .summary = "Let messages of the outbox go to an endpoint",
      .text =
          "Each message of the outbox goes to every endpoint of which a topic matches; without "
          "--topic that is all. A server with publishing turned on delivers them. Secrets are kept "
          "as they are written here: env: and file: are those of whoever delivers, and are refused "
          "over HTTP, where only literal: is taken.",
      .options = joined(all_endpoint_options(*options), store_options(options->store)),
      .arguments = {name_argument(options->name),
                    {.value = "ENDPOINT-URL",
                     .text = "https://... for a signed webhook, oncebox+https://HOST/v1 for "
                             "another Oncebox",
                     .take = into(options->url)}},
      .examples = {{"oncebox endpoints add crm https://crm.example.com/hooks --topic 'order.*' "
                    "--secret env:CRM_SECRET",
                    "Orders go to a webhook"},
                   {"oncebox endpoints add mail https://mail.example.com/in --secret "
                    "file:/run/secrets/mail --max-concurrency 2 --rate 100/1s",
                    "And no faster than that"}},
      .run = [options](Console& console) { return save_from(console, *options, true); }};
}

Command edit_endpoint_command() {
  const auto options = std::make_shared<EndpointArguments>();
  std::vector<Option> all = all_endpoint_options(*options);
  all.push_back({.names = "--target",
                 .value = "ENDPOINT-URL",
                 .text = "another address",
                 .take = into(options->url)});
  return {.name = "edit",
          .summary = "Change an endpoint",
          .text = "What is not named stays as it is; --topic and --secret replace all of theirs.",
          .options = joined(std::move(all), store_options(options->store)),
          .arguments = {name_argument(options->name)},
          .examples = {{"oncebox endpoints edit crm --secret env:NEW --secret env:OLD",
                        "Sign with both while the receiver changes"}},
          .run = [options](Console& console) { return save_from(console, *options, false); }};
}

Command remove_endpoint_command() {
  const auto options = std::make_shared<EndpointArguments>();
  return {.name = "remove",
          .summary = "Remove an endpoint",
          .text =
              "What is under way to it fails for good. Its rule for retries and limits goes, "
              "too.",
          .options = joined({reason_option(options->reason)}, store_options(options->store)),
          .arguments = {name_argument(options->name)},
          .examples = {{"oncebox endpoints remove crm --reason 'the contract ended'", "For good"}},
          .run = [options](Console& console) { return remove_by(console, *options); }};
}

Command pause_endpoint_command(bool pauses) {
  const auto options = std::make_shared<EndpointArguments>();
  return {.name = pauses ? "pause" : "resume",
          .summary = pauses ? "Hold back what goes to an endpoint"
                            : "Let it go on, also where the endpoint was disabled",
          .text = pauses ? "Messages are gathered for it until it is resumed."
                         : "What failed while it was disabled comes again by: oncebox endpoints "
                           "resend NAME --failed",
          .options = joined({reason_option(options->reason)}, store_options(options->store)),
          .arguments = {name_argument(options->name)},
          .examples = {{pauses ? "oncebox endpoints pause crm" : "oncebox endpoints resume crm",
                        pauses ? "While the receiver is worked on" : "It is back"}},
          .run = [options, pauses](Console& console) {
            return pause_or_resume(console, *options, pauses);
          }};
}

Command test_endpoint_command() {
  const auto options = std::make_shared<EndpointArguments>();
  const auto patience = std::make_shared<Duration>(std::chrono::seconds{30});
  return {.name = "test",
          .summary = "Send a message to an endpoint and tell what it answers",
          .text =
              "The message has the topic oncebox.test and goes to this endpoint alone. It is "
              "delivered by whoever publishes for the store.",
          .options = joined({{.names = "--wait",
                              .value = "DURATION",
                              .text = "how long to wait for the answer",
                              .take = into(*patience),
                              .initial = format_duration(*patience)}},
                            store_options(options->store)),
          .arguments = {name_argument(options->name)},
          .examples = {{"oncebox endpoints test crm", "Whether it works"}},
          .run = [options, patience](Console& console) {
            return test_endpoint(console, *options, *patience);
          }};
}

Command resend_command() {
  const auto options = std::make_shared<ResendArguments>();
  return {
      .name = "resend",
      .summary = "Send an endpoint again what it missed",
      .text =
          "Under the same ids, by which the receiver knows what it has. --since goes back as "
          "far as the outbox remembers what is done.",
      .options = joined({{.names = "--since",
                          .value = "TIME",
                          .text = "all that was sent since this time, or in so long",
                          .take = into(options->since)},
                         {.names = "--failed",
                          .text = "every delivery that failed for good; not those that were "
                                  "cancelled, have expired or only were a test",
                          .take = into(options->failed)},
                         {.names = "--source",
                          .value = "SOURCE",
                          .text = "one message: its source",
                          .take = into(options->source)},
                         {.names = "--id",
                          .value = "ID",
                          .text = "one message: its id",
                          .take = into(options->id)},
                         {.names = "--rate",
                          .value = "RATE",
                          .text = "no faster than that, such as 100/1s",
                          .take = into(options->rate)},
                         {.names = "--dry-run",
                          .text = "only count what would be sent again",
                          .take = into(options->dry_run)},
                         reason_option(options->reason)},
                        store_options(options->store)),
      .arguments = {name_argument(options->name)},
      .examples = {{"oncebox endpoints resend crm --failed --rate 50/1s", "What failed, gently"},
                   {"oncebox endpoints resend crm --since 2h", "All of the last two hours"}},
      .run = [options](Console& console) { return resend_by(console, *options); }};
}

}  // namespace

Command endpoints_command() {
  return {
      .name = "endpoints",
      .summary = "See and change where messages of the outbox go",
      .examples = {{"oncebox endpoints list", "The endpoints"},
                   {"oncebox endpoints test crm", "Whether one works"}},
      .commands = {list_endpoints_command(), show_endpoint_command(), add_endpoint_command(),
                   edit_endpoint_command(), remove_endpoint_command(), pause_endpoint_command(true),
                   pause_endpoint_command(false), test_endpoint_command(), resend_command()}};
}

}  // namespace oncebox::app
