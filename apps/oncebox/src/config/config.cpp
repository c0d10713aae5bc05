#include "config/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "config/config_file.hpp"
#include "config/config_keys.hpp"
#include "config/policy_keys.hpp"
#include "files.hpp"
#include "oncebox/discover_by_query.hpp"
#include "oncebox/driver/store_url.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/authority.hpp"
#include "oncebox/internal/nearest_name.hpp"
#include "printable.hpp"

namespace oncebox::app {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr Duration kMaxDrainTimeout = std::chrono::hours{24};
constexpr Duration kShortestDiscovery = std::chrono::seconds{1};
constexpr Duration kLongestDiscovery = std::chrono::hours{24};
constexpr std::string_view kStoresVariable = "ONCEBOX_STORES";
constexpr std::string_view kConfigVariable = "ONCEBOX_CONFIG";

std::map<std::string, std::string> variables_of(const std::vector<std::string>& environment) {
  std::map<std::string, std::string> variables;
  for (const std::string& variable : environment) {
    const std::size_t equals = variable.find('=');
    if (equals != std::string::npos && variable.starts_with("ONCEBOX_")) {
      variables[variable.substr(0, equals)] = variable.substr(equals + 1);
    }
  }
  return variables;
}

template <class Target>
std::vector<std::string> paths_of(const std::vector<Key<Target>>& keys) {
  std::vector<std::string> paths;
  for (const auto& key : keys) paths.push_back(key.path);
  return paths;
}

/// Gathers everything that is wrong, so that it can be mended in one go.
class Loader {
 public:
  explicit Loader(const ConfigSources& sources)
      : sources_(sources), variables_(variables_of(sources.environment)) {}

  LoadedConfig load() {
    read_file();
    read_variables();
    read_flags();
    check();
    if (!problems_.empty()) {
      throw Failure(ExitCode::bad_config, fmt::format("{}", fmt::join(problems_, "\n")));
    }
    return std::move(loaded_);
  }

 private:
  void complain(const std::string& where, std::string_view text) {
    problems_.push_back(fmt::format("{}: {}", printable(where), printable(text)));
  }

  /// Sets a value; what is wrong with it is told with where it came from.
  template <class Target>
  void set(const Key<Target>& key, Target& target, const ConfigValue& value,
           const std::string& where) {
    try {
      key.set(target, value);
    } catch (const Error& error) {
      complain(where, error.what());
    } catch (const Failure& failure) {
      complain(where, failure.what());
    }
  }

  template <class Target>
  void set_entry(const std::vector<Key<Target>>& keys, Target& target, const ConfigEntry& entry) {
    const std::string where = fmt::format("{}:{}", loaded_.file, entry.line);
    const auto key = std::find_if(keys.begin(), keys.end(),
                                  [&](const auto& known) { return known.path == entry.path; });
    if (key == keys.end()) {
      complain(where, fmt::format("there is no key {}{}", entry.path,
                                  suggestion(entry.path, paths_of(keys))));
    } else {
      set(*key, target, entry.value, fmt::format("{}: {}", where, entry.path));
    }
  }

  // The file --------------------------------------------------------------------------------------

  /// Empty when there is none.
  [[nodiscard]] std::string file_to_read() const {
    if (sources_.file) return *sources_.file;
    const auto variable = variables_.find(std::string(kConfigVariable));
    if (variable != variables_.end() && !variable->second.empty()) return variable->second;
    for (const char* path : {"oncebox.toml", "/etc/oncebox/oncebox.toml"}) {
      std::error_code ignored;
      if (std::filesystem::exists(path, ignored)) return path;
    }
    return {};
  }

  void read_file() {
    loaded_.file = file_to_read();
    if (loaded_.file.empty()) return;
    const ConfigDocument document =
        parse_config_document(app::read_file(loaded_.file, kMaxFileBytes));
    for (const ConfigProblem& problem : document.problems) {
      complain(fmt::format("{}:{}", loaded_.file, problem.line), problem.text);
    }
    for (const ConfigEntry& entry : document.entries) {
      set_entry(config_keys(), loaded_.config, entry);
    }
    for (const auto& [name, tables] : document.tables) read_tables(name, tables);
  }

  void begin_stores() {
    lists_stores_ = true;
    loaded_.config.stores.clear();
  }

  void read_tables(const std::string& name, const std::vector<ConfigDocument::Table>& tables) {
    if (name == "stores") begin_stores();
    for (const ConfigDocument::Table& table : tables) {
      if (name == "stores") {
        StoreSetting& store = loaded_.config.stores.emplace_back();
        for (const ConfigEntry& entry : table.entries) set_entry(store_keys(), store, entry);
      } else if (name == "webhooks") {
        server::WebhookOptions& webhook = loaded_.config.server.webhooks.emplace_back();
        for (const ConfigEntry& entry : table.entries) set_entry(webhook_keys(), webhook, entry);
      } else if (name == "topics") {
        server::TopicOptions& topic = loaded_.config.server.topics.emplace_back();
        for (const ConfigEntry& entry : table.entries) set_entry(topic_keys(), topic, entry);
      } else if (name == "publish") {
        server::PublishEndpoint& endpoint = loaded_.config.server.publish.endpoints.emplace_back();
        for (const ConfigEntry& entry : table.entries) set_entry(publish_keys(), endpoint, entry);
      } else {
        complain(fmt::format("{}:{}", loaded_.file, table.line),
                 fmt::format("there is no list [[{}]]{}", name,
                             suggestion(name, {"publish", "stores", "topics", "webhooks"})));
      }
    }
  }

  // The environment and the flags -----------------------------------------------------------------

  void read_variables() {
    std::vector<std::string> known{std::string(kStoresVariable), std::string(kConfigVariable),
                                   "ONCEBOX_URL", "ONCEBOX_TOKEN", "ONCEBOX_TOKENS"};
    for (const ConfigKey& key : config_keys()) {
      const std::string name = variable_of(key.path);
      known.push_back(name);
      const auto variable = variables_.find(name);
      if (variable != variables_.end()) {
        set(key, loaded_.config, FreeText{variable->second}, name);
      }
    }
    if (const auto stores = variables_.find(std::string(kStoresVariable));
        stores != variables_.end()) {
      read_stores(words_in(stores->second), std::string(kStoresVariable));
    }
    warn_of_unknown_variables(known);
  }

  /// Others may use the prefix too, so only what looks like a slip is told.
  void warn_of_unknown_variables(const std::vector<std::string>& known) {
    for (const auto& [name, value] : variables_) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const auto meant = nearest_name(name, known);
      if (meant && edit_distance(name, *meant) <= 2) {
        loaded_.warnings.push_back(
            fmt::format("the environment variable {} means nothing (did you "
                        "mean {}?)",
                        printable(name), *meant));
      }
    }
  }

  static std::vector<std::string> words_in(const std::string& text) {
    std::vector<std::string> words(1);
    for (const char character : text) {
      if (character == ' ' || character == '\n' || character == '\t') {
        words.emplace_back();
      } else {
        words.back() += character;
      }
    }
    std::erase(words, "");
    return words;
  }

  /// [NAME=]URL. A name has no colon, so an `=` behind one belongs to the URL.
  void read_stores(const std::vector<std::string>& texts, const std::string& where) {
    if (texts.empty()) {
      complain(where, "it names no store");
      return;
    }
    begin_stores();
    for (const std::string& text : texts) {
      const std::size_t equals = text.find_first_of("=:");
      const bool has_name = equals != std::string::npos && text[equals] == '=';
      loaded_.config.stores.push_back({has_name ? text.substr(0, equals) : "default",
                                       has_name ? text.substr(equals + 1) : text});
    }
  }

  void read_flags() {
    for (const NameAndValue& setting : sources_.settings) {
      const auto& keys = config_keys();
      const auto key = std::find_if(keys.begin(), keys.end(), [&](const ConfigKey& known) {
        return known.path == setting.name;
      });
      if (key == keys.end()) {
        complain("--set", fmt::format("there is no key {}{}", setting.name,
                                      suggestion(setting.name, paths_of(keys))));
      } else {
        set(*key, loaded_.config, FreeText{setting.value}, "--set " + setting.name);
      }
    }
    if (!sources_.stores.empty()) read_stores(sources_.stores, "--store");
  }

  // The whole -------------------------------------------------------------------------------------

  void check() {
    check_discovery();
    check_stores();
    std::set<std::string> hooks;
    for (const server::WebhookOptions& webhook : loaded_.config.server.webhooks) {
      if (!hooks.insert(webhook.name).second) {
        complain("webhooks", fmt::format("the name \"{}\" is there twice", webhook.name));
      }
      if (!webhook.store.empty() && !webhook.has_store_by_request() &&
          !may_have_store(webhook.store)) {
        complain("webhooks",
                 fmt::format("{}: there is no store \"{}\"", webhook.name, webhook.store));
      }
    }
    check_endpoints();
    if (loaded_.config.drain_timeout > kMaxDrainTimeout) {
      complain("server.drain_timeout",
               fmt::format("at most {}", format_duration(kMaxDrainTimeout)));
    }
    // It looks at values that are there; what could not be read would only be told twice.
    if (!problems_.empty()) return;
    try {
      loaded_.config.server.validate();
    } catch (const Error& error) {
      complain("configuration", error.what());
    }
    warn_of_plain_notices();
  }

  void check_endpoints() {
    for (const server::PublishEndpoint& endpoint : loaded_.config.server.publish.endpoints) {
      if (!endpoint.store.empty() && !may_have_store(endpoint.store)) {
        complain("publish",
                 fmt::format("{}: there is no store \"{}\"", endpoint.name, endpoint.store));
      }
    }
  }

  void warn_of_plain_notices() {
    const std::string& url = loaded_.config.server.notices.url;
    if (!url.starts_with("http://")) return;
    const auto authority = detail::read_authority(detail::authority_of(url));
    if (authority && detail::is_loopback_host(authority->host)) return;
    loaded_.warnings.emplace_back(
        "notices.url begins with http://, so everybody on the way can read the notices; take "
        "https://");
  }

  /// One that is discovered may have any name.
  [[nodiscard]] bool may_have_store(const std::string& name) const {
    const auto& stores = loaded_.config.stores;
    return loaded_.config.discovery.is_on() ||
           std::any_of(stores.begin(), stores.end(),
                       [&](const StoreSetting& store) { return store.name == name; });
  }

  void check_discovery() {
    const DiscoverySettings& discovery = loaded_.config.discovery;
    if (!discovery.file.empty() && !discovery.query.empty()) {
      complain("discovery", "either file or query, not both");
    }
    if (discovery.query.empty() != discovery.database.empty()) {
      complain("discovery", "query and database belong together");
    } else if (!discovery.query.empty()) {
      try {
        // What it says never shows the URL, which may hold a password.
        (void)discover_by_query(discovery.database, discovery.query);
      } catch (const Error& error) {
        complain("discovery.database", error.what());
      }
    }
    if (discovery.interval < kShortestDiscovery || discovery.interval > kLongestDiscovery) {
      complain("discovery.interval",
               fmt::format("from {} to {}", format_duration(kShortestDiscovery),
                           format_duration(kLongestDiscovery)));
    }
    std::vector<StoreSetting>& stores = loaded_.config.stores;
    // The store that is there when nobody says anything is not meant then.
    if (discovery.is_on() && !lists_stores_) stores.clear();
    const std::string& default_store = loaded_.config.server.default_store;
    if (!default_store.empty() && !may_have_store(default_store)) {
      complain("discovery.default_store", fmt::format("there is no store \"{}\"", default_store));
    }
  }

  void check_stores() {
    constexpr std::string_view kNameCharacters =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    std::set<std::string> names;
    for (const StoreSetting& store : loaded_.config.stores) {
      if (store.name.empty() || store.name.size() > 64 ||
          store.name.find_first_not_of(kNameCharacters) != std::string::npos) {
        complain("stores", fmt::format("\"{}\" is no name for a store: up to 64 letters, digits, - "
                                       "and _",
                                       store.name));
      }
      if (!names.insert(store.name).second) {
        complain("stores", fmt::format("the name \"{}\" is there twice", store.name));
      }
      try {
        // What it says never shows the URL, which may hold a password.
        (void)StoreUrl(store.url);
      } catch (const Error& error) {
        complain(fmt::format("the URL of store {}", store.name), error.what());
      }
    }
  }

  const ConfigSources& sources_;
  std::map<std::string, std::string> variables_;
  LoadedConfig loaded_;
  std::vector<std::string> problems_;
  bool lists_stores_ = false;  ///< the configuration names stores
};

}  // namespace

LoadedConfig load_config(const ConfigSources& sources) { return Loader(sources).load(); }

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return variables;
}

}  // namespace oncebox::app
