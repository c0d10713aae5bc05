#include <fmt/format.h>

#include "config/config.hpp"
#include "config/config_keys.hpp"
#include "config/policy_keys.hpp"
#include "help.hpp"

namespace oncebox::app {
namespace {

constexpr std::size_t kColumns = 98;

std::string comment(std::string_view text) {
  std::string result;
  const std::string lines = wrapped(text, 0, kColumns);
  for (std::string_view rest = lines; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    result += fmt::format("# {}\n", rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  return result;
}

/// A list of tables; `mark` stands before each line.
template <class Target>
std::string table_text(std::string_view name, const std::vector<Key<Target>>& keys,
                       const Target& target, std::string_view mark) {
  std::string text = fmt::format("{}[[{}]]\n", mark, name);
  for (const auto& key : keys) {
    text += comment(key.text) + fmt::format("{}{} = {}\n", mark, key.name(), key.written(target));
  }
  return text;
}

/// What the tables of a list may say, where the file has none of them.
template <class Target>
std::string keys_text(const std::vector<Key<Target>>& keys, const Target& target) {
  std::string text;
  for (const auto& key : keys) {
    text += comment(fmt::format("{}: {}", key.name(), key.text));
    text += fmt::format("#     {} = {}\n", key.name(), key.written(target));
  }
  return text;
}

}  // namespace

std::string default_config_file() {
  const Config config;
  std::string text = comment(
      "The configuration of `oncebox serve`. Every key stands here with its default: remove the # "
      "in front of it to set it. A key can also be set by the environment variable that is named "
      "with it (lists with white space between), and by --set KEY=VALUE, which wins. Durations are "
      "written as 250ms, 30s, 5m, 12h or 7d, sizes as 64KiB or 8MiB.");
  std::string section;
  for (const ConfigKey& key : config_keys()) {
    if (key.section() != section) {
      section = key.section();
      text += fmt::format("\n{}[{}]\n", comment(section_text(section)), section);
    }
    text += "\n" + comment(key.text) + comment(variable_of(key.path));
    text += fmt::format("#{} = {}\n", key.name(), key.written(config));
  }
  text += "\n" + comment(
                     "Stores, the first of which is the one that paths without a store's name "
                     "mean. In the environment: ONCEBOX_STORES=\"NAME=URL NAME=URL\".");
  text += table_text("stores", store_keys(), config.stores.front(), "#");

  text +=
      "\n" + comment(
                 "Topics with rules of their own, as in [retry]. What a rule does not say is "
                 "as the next wider one has it: \"order.*\", then [retry]; \"default\" clears what "
                 "a store has, so that it is as the wider one has it again. A limit of "
                 "concurrency or rate holds for all topics of its rule together.");
  text += "#\n# [[topics]]\n# topic = \"order.*\"\n# max_attempts = 5\n#\n";
  text += keys_text(topic_keys(), server::TopicOptions{.topic = ""});

  text += "\n" + comment(
                     "Endpoints that the messages of the outboxes go to, each message to every "
                     "endpoint of which a topic matches. Any of them turns [publishing] on. They "
                     "are set in the stores when these are opened; \"oncebox endpoints\" sees and "
                     "changes them there.");
  text +=
      "#\n# [[publish]]\n# name = \"crm\"\n# url = \"https://crm.example.com/hooks\"\n"
      "# topics = [\"order.*\", \"invoice.sent\"]\n# secrets = [\"env:CRM_SECRET\"]\n#\n";
  text += keys_text(publish_keys(), server::PublishEndpoint{.name = ""});

  text += "\n" + comment(
                     "Webhooks, each at an address of its own. There are none by default; this "
                     "is one for Stripe, with the defaults of all keys below.");
  text +=
      "#\n# [[webhooks]]\n# name = \"stripe\"\n# scheme = \"stripe\"\n"
      "# secrets = [\"env:STRIPE_SECRET\", \"file:/run/secrets/stripe_old\"]\n#\n";
  text += keys_text(webhook_keys(), server::WebhookOptions{.name = ""});
  return text;
}

}  // namespace oncebox::app
