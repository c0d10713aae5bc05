#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <memory>
#include <utility>

#include "acting_user.hpp"
#include "choices.hpp"
#include "commands/commands.hpp"
#include "commands/policy_options.hpp"
#include "failure.hpp"
#include "oncebox/wire/audit_json.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "oncebox/wire/policy_json.hpp"
#include "output.hpp"
#include "policy_values.hpp"
#include "store_options.hpp"
#include "table.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

struct TopicsOptions {
  StoreOptions store = {};
  std::string topic = {};
  bool exact = false;
  TopicPolicyChange change = {};
  PolicyOptions options = {};

  [[nodiscard]] TopicPattern pattern() const {
    return exact ? TopicPattern(Topic(topic)) : TopicPattern(topic);
  }
};
using TopicsOptionsPtr = std::shared_ptr<TopicsOptions>;

// What is shown ----------------------------------------------------------------------------------

template <class Number>
std::string number_of(const std::optional<Number>& number) {
  return number ? fmt::format("{}", *number) : "";
}

void print_rules(Output& out, std::span<const TopicRule> rules) {
  Table table({{"TOPIC"},
               {"PAUSED"},
               {"ATTEMPTS", Align::right},
               {"DELAYS"},
               {"GIVE UP AFTER", Align::right},
               {"DELIVERIES", Align::right},
               {"AT ONCE", Align::right},
               {"RATE", Align::right}});
  for (const TopicRule& rule : rules) {
    const TopicPolicy& policy = rule.policy;
    table.add({{rule.pattern.str()},
               {policy.paused.value_or(false) ? "paused" : "", Style::yellow},
               {number_of(policy.max_attempts)},
               {delays_of(policy)},
               {policy.give_up_after ? format_age(*policy.give_up_after) : ""},
               {number_of(policy.max_deliveries)},
               {number_of(policy.limits.max_concurrency)},
               {policy.limits.rate ? format_rate(*policy.limits.rate) : ""}});
  }
  table.print(out);
}

// What is done -----------------------------------------------------------------------------------

/// Leaves a trace of a change to a rule. A server leaves one itself.
template <class Change, class Count>
auto with_trace(const OpenStore& store, AuditAction action, std::string subject,
                const TopicsOptions& options, Change change, Count count) {
  return audited(store.store().audit(),
                 {.actor = acting_user(),
                  .action = action,
                  .part = audited_part(store.kind()),
                  .subject = std::move(subject),
                  .reason = options.options.reason},
                 change, count);
}

ExitCode set_policy(Console& console, const TopicsOptions& options) {
  const OpenStore store(options.store);
  PolicyStore& policies = store.store().policies();
  TopicRule rule{options.pattern(), {}};
  const TopicPolicy before = policies.policies(store.kind()).rule_of(rule.pattern);
  rule.policy = with_trace(
      store, audit_action_of(options.change), wire::audit_subject(rule.pattern, options.change),
      options,
      [&] { return policies.update(store.kind(), rule.pattern, options.change, options.options); },
      [&](const TopicPolicy& after) -> std::size_t { return after != before; });
  if (options.store.json) {
    console.out.line(wire::write_policy(rule));
  } else {
    print_rules(console.out, {&rule, 1});
  }
  return ExitCode::ok;
}

ExitCode remove_policy(Console& console, const TopicsOptions& options) {
  const OpenStore store(options.store);
  const std::size_t removed = with_trace(
      store, AuditAction::set_policy, wire::audit_removal(options.pattern()), options,
      [&]() -> std::size_t {
        return store.store().policies().remove(store.kind(), options.pattern(), options.options);
      },
      std::identity());
  if (options.store.json) {
    console.out.line(wire::write_count(removed));
  } else {
    console.out.line(removed > 0 ? "removed" : "there is no such rule");
  }
  return removed > 0 ? ExitCode::ok : ExitCode::failed;
}

// The commands -----------------------------------------------------------------------------------

Argument topic_argument(const TopicsOptionsPtr& options) {
  return {.value = "TOPIC",
          .text = "a topic, or a pattern such as 'order.*'",
          .take = into(options->topic)};
}

std::vector<Option> change_options(const TopicsOptionsPtr& options) {
  return joined({{.names = "--exact",
                  .text = "the topic of this very name, also when it ends in *",
                  .take = into(options->exact)},
                 {.names = "--reason",
                  .value = "TEXT",
                  .text = "why, for the audit trail",
                  .take = into(options->options.reason)}},
                queue_options(options->store));
}

Command list_topics_command() {
  const auto options = std::make_shared<TopicsOptions>();
  return {.name = "list",
          .summary = "List the rules for topics",
          .text =
              "What a rule does not say is as the next wider one has it, in the end as the queue "
              "does by itself: 10 attempts for an inbox, 3 days for an outbox.",
          .options = queue_options(options->store),
          .examples = {{"oncebox topics list", "The rules of the inbox"},
                       {"oncebox topics list --queue outbox --json", "For a program"}},
          .run = [options](Console& console) {
            const OpenStore store(options->store);
            const TopicPolicies policies = store.store().policies().policies(store.kind());
            if (options->store.json) {
              console.out.line(wire::write_policies(policies.rules()));
            } else {
              print_rules(console.out, policies.rules());
            }
            return ExitCode::ok;
          }};
}

Command set_topic_command() {
  const auto options = std::make_shared<TopicsOptions>();
  return {
      .name = "set",
      .summary = "Change the rule for a topic or a pattern of topics",
      .text =
          "The rule holds for everybody who works on the store, in any language and in any "
          "process, from now on. What is not named stays as it is. The value default takes a field "
          "out of the rule: it is then as the next wider rule has it, in the end as the queue does "
          "by itself. A worker that brings rules of its own goes by those for what it handles.",
      .options = joined(joined(retry_options(options->change), limit_options(options->change)),
                        change_options(options)),
      .arguments = {topic_argument(options)},
      .examples = {{"oncebox topics set 'order.*' --max-attempts 5 --backoff 2s",
                    "Fewer attempts, further apart"},
                   {"oncebox topics set mail.welcome --max-concurrency 2 --rate 100/1s",
                    "Spare the mail server"},
                   {"oncebox topics set mail.welcome --rate default", "Lift one of the two again"}},
      .run = [options](Console& console) {
        if (options->change.empty()) {
          throw Failure(ExitCode::usage,
                        "nothing to change is named; see oncebox topics set --help");
        }
        return set_policy(console, *options);
      }};
}

Command pause_command(std::string name, std::string summary, bool paused) {
  const auto options = std::make_shared<TopicsOptions>();
  options->change.paused = paused;
  const std::string example = "oncebox topics " + name + " 'order.*'";
  return {
      .name = std::move(name),
      .summary = std::move(summary),
      .text =
          "A paused topic takes messages in and hands none out, to anybody, until it is resumed "
          "by the same name. What is leased goes on.",
      .options = change_options(options),
      .arguments = {topic_argument(options)},
      .examples = {{example, paused ? "Hold orders back" : "Let them go on"}},
      .run = [options](Console& console) { return set_policy(console, *options); }};
}

Command remove_topic_command() {
  const auto options = std::make_shared<TopicsOptions>();
  return {.name = "remove",
          .summary = "Remove the rule for a topic or a pattern of topics",
          .text = "The topics go by the next wider rule from now on.",
          .options = change_options(options),
          .arguments = {topic_argument(options)},
          .examples = {{"oncebox topics remove 'order.*'", "As if it had never been set"}},
          .run = [options](Console& console) { return remove_policy(console, *options); }};
}

}  // namespace

Command topics_command() {
  return {.name = "topics",
          .summary = "See and change retries, limits and pauses of topics",
          .examples = {{"oncebox topics list", "The rules"},
                       {"oncebox topics pause 'order.*'", "Hold orders back"}},
          .commands = {list_topics_command(), set_topic_command(),
                       pause_command("pause", "Hand out no messages of a topic", true),
                       pause_command("resume", "Hand out messages of a topic again", false),
                       remove_topic_command()}};
}

}  // namespace oncebox::app
