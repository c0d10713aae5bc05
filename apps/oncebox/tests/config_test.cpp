#include "config/config.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "config/config_keys.hpp"
#include "oncebox/testing/temporary_folder.hpp"

namespace oncebox::app {
namespace {

using namespace std::chrono_literals;

class ConfigTest : public ::testing::Test {
 protected:
  /// What this file, these variables and these settings give.
  LoadedConfig load_all(const std::string& toml, std::vector<std::string> environment = {},
                        std::vector<NameAndValue> settings = {}) {
    const std::string path = folder_.file("oncebox.toml");
    std::ofstream(path) << toml;
    return load_config(
        {.file = path, .environment = std::move(environment), .settings = std::move(settings)});
  }
  Config load(const std::string& toml, std::vector<std::string> environment = {},
              std::vector<NameAndValue> settings = {}) {
    return load_all(toml, std::move(environment), std::move(settings)).config;
  }

  testing::TemporaryFolder folder_;
};

/// Every key as the file would write it.
std::vector<std::string> written(const Config& config) {
  std::vector<std::string> lines;
  for (const ConfigKey& key : config_keys())
    lines.push_back(key.path + " = " + key.written(config));
  for (const StoreSetting& store : config.stores) lines.push_back(store.name + " " + store.url);
  return lines;
}

TEST_F(ConfigTest, TheDefaultFileWithEveryKeySetChangesNothing) {
  const std::string every_key =
      std::regex_replace(default_config_file(), std::regex("\n#(?=[a-z\\[])"), "\n");
  EXPECT_NE(every_key, default_config_file());
  EXPECT_EQ(written(load(every_key)), written(Config{}));
  EXPECT_EQ(written(load(default_config_file())), written(Config{}));
}

TEST_F(ConfigTest, ValuesArriveWhereTheyBelong) {
  const Config config = load(R"(
    [listen]
    host = "::1"
    port = 9000
    [limits]
    max_body_bytes = "1MiB"
    max_header_bytes = 4096
    request_timeout = "1m30s"
    [retention]
    dead = "90d"
    [enqueue]
    on_hash_mismatch = "quarantine"
    [retry]
    max_attempts = 4
    delays = ["1s", "1m"]
    rate = "100/1s burst 20"
    [server]
    drain_timeout = "5s"
    [log]
    level = "warning"
    format = "json"
    access = "errors"
    messages = "off"
    [[stores]]
    name = "main"
    url = "memory:"
    [[stores]]
    name = "second"
    url = "sqlite:x.db"
    [[topics]]
    topic = "mail.*"
    queue = "outbox"
    paused = true
    jitter = "full"
    give_up_after = "2d"
    max_concurrency = 3
    [[webhooks]]
    name = "hook"
    scheme = "none"
    store = "second"
    topic = "hook.{header:X-Event}"
  )");
  EXPECT_EQ(config.server.listen.host, "::1");
  EXPECT_EQ(config.server.listen.port, 9000);
  EXPECT_EQ(config.server.limits.max_body_bytes, std::size_t{1} << 20);
  EXPECT_EQ(config.server.limits.max_header_bytes, 4096U);
  EXPECT_EQ(config.server.limits.request_timeout, 90s);
  EXPECT_EQ(config.server.retention.dead, 90 * 24h);
  EXPECT_EQ(config.server.enqueue.on_hash_mismatch, HashMismatchPolicy::quarantine);
  EXPECT_EQ(
      config.server.retry,
      (TopicPolicyChange{.max_attempts = 4,
                         .delays = {1s, 1min},
                         .limits = {.rate = RateLimit{.count = 100, .per = 1s, .burst = 20}}}));
  ASSERT_EQ(config.server.topics.size(), 1U);
  EXPECT_EQ(config.server.topics[0].topic, "mail.*");
  EXPECT_EQ(config.server.topics[0].queue, QueueKind::outbox);
  EXPECT_EQ(config.server.topics[0].change, (TopicPolicyChange{.jitter = Jitter::full,
                                                               .give_up_after = 48h,
                                                               .limits = {.max_concurrency = 3},
                                                               .paused = true}));
  EXPECT_EQ(config.drain_timeout, 5s);
  EXPECT_EQ(config.log.level, LogLevel::warning);
  EXPECT_EQ(config.log.format, LogFormat::json);
  EXPECT_EQ(config.server.access_log, server::AccessLog::errors);
  EXPECT_EQ(config.server.message_log, server::MessageLog::off);
  ASSERT_EQ(config.stores.size(), 2U);
  EXPECT_EQ(config.stores[0].name, "main");
  EXPECT_EQ(config.stores[1].url, "sqlite:x.db");
  ASSERT_EQ(config.server.webhooks.size(), 1U);
  EXPECT_EQ(config.server.webhooks[0].scheme, server::WebhookScheme::none);
  EXPECT_EQ(config.server.webhooks[0].topic, "hook.{header:X-Event}");
}

TEST_F(ConfigTest, ARuleSetsClearsAndLeavesItsFields) {
  const Config config = load(R"(
    [retry]
    max_attempts = "default"
    backoff = "default"
    delays = "default"
    max_delay = "default"
    jitter = "default"
    give_up_after = "default"
    max_deliveries = "default"
    max_concurrency = "default"
    rate = "default"
    [[topics]]
    topic = "mail"
    give_up_after = "never"
    max_concurrency = "unlimited"
    rate = "unlimited"
  )",
                             {}, {{"retry.max_attempts", "3"}});
  EXPECT_EQ(config.server.retry,
            (TopicPolicyChange{.max_attempts = 3,
                               .backoff = std::nullopt,
                               .delays = std::nullopt,
                               .max_delay = std::nullopt,
                               .jitter = std::nullopt,
                               .give_up_after = std::nullopt,
                               .max_deliveries = std::nullopt,
                               .limits = {.max_concurrency = std::nullopt, .rate = std::nullopt}}));
  EXPECT_EQ(config.server.topics.at(0).change,
            (TopicPolicyChange{.give_up_after = 0s,
                               .limits = {.max_concurrency = std::nullopt, .rate = std::nullopt}}));
  EXPECT_TRUE(load("").server.retry.empty());
  EXPECT_EQ(load("", {"ONCEBOX_RETRY_DELAYS=default"}).server.retry,
            (TopicPolicyChange{.delays = std::nullopt}));
  for (const char* const bad : {"max_attempts = \"unlimited\"", "max_delay = \"never\""}) {
    EXPECT_THROW((void)load("[retry]\n" + std::string(bad)), Failure) << bad;
  }
}

TEST_F(ConfigTest, FlagsWinOverVariablesAndThoseOverTheFile) {
  const std::string file = "listen.port = 1\nlisten.host = \"127.0.0.2\"\nlog.level = \"error\"\n";
  const std::vector<std::string> variables{"ONCEBOX_LISTEN_PORT=2",
                                           "ONCEBOX_LISTEN_HOST=127.0.0.3"};
  EXPECT_EQ(load(file).server.listen.port, 1);
  EXPECT_EQ(load(file, variables).server.listen.port, 2);
  const Config config = load(file, variables, {{"listen.port", "3"}});
  EXPECT_EQ(config.server.listen.port, 3);
  EXPECT_EQ(config.server.listen.host, "127.0.0.3");
  EXPECT_EQ(config.log.level, LogLevel::error);
}

TEST_F(ConfigTest, ListsInTheEnvironmentAreSeparatedByWhiteSpace) {
  const Config config =
      load("", {"ONCEBOX_SERVER_CORS_ORIGINS= https://a.example\n https://b.example "});
  EXPECT_EQ(config.server.cors_origins,
            (std::vector<std::string>{"https://a.example", "https://b.example"}));
}

TEST_F(ConfigTest, EverythingThatIsWrongIsToldAtOnce) {
  try {
    (void)load("listen.prot = 1\nlog.level = 2\n", {"ONCEBOX_LISTEN_PORT=x"},
               {{"limits.idle_timeout", "soon"}});
    FAIL() << "expected a failure";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), ExitCode::bad_config);
    const std::string text = failure.what();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
    for (const char* part : {"oncebox.toml:1", "oncebox.toml:2: log.level", "ONCEBOX_LISTEN_PORT",
                             "--set limits.idle_timeout"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    }
  }
}

TEST_F(ConfigTest, ImpossiblePortsAreRefused) {
  const std::string secret = "secret = \"literal:whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n";
  const std::pair<std::string, std::string> cases[] = {
      {"listen.port = 65536\n", "listen.port"},
      {"listen.port = -1\n", "listen.port"},
      {"[[stores]]\nname = \"a\"\nurl = \"postgresql://u:s3cret@db:65536/x\"\n", "store a"},
      {"[[stores]]\nname = \"a\"\nurl = \"http://box:0\"\n", "store a"},
      {"[discovery]\ndatabase = \"postgresql://db:99999/x\"\nquery = \"SELECT 1\"\n",
       "discovery.database"},
      {"[notices]\nurl = \"https://ops.example:65536/\"\n" + secret, "notices.url"},
      {"[server]\ncors_origins = [\"https://shop.example:65536\"]\n", "cors_origins"},
  };
  for (const auto& [toml, part] : cases) {
    try {
      (void)load(toml);
      ADD_FAILURE() << "expected a failure of\n" << toml;
    } catch (const Failure& failure) {
      const std::string text = failure.what();
      EXPECT_NE(text.find(part), std::string::npos) << text;
      EXPECT_EQ(text.find("s3cret"), std::string::npos) << text;
    }
  }
}

TEST_F(ConfigTest, PublishingHasAuthoritiesAndAProxyOfItsOwn) {
  const std::string authorities = folder_.file("ca.pem");
  const auto publishing = [&](const std::string& keys) {
    return load("[publishing]\n" + keys).server.publish;
  };
  EXPECT_FALSE(publishing("").proxy_checks_addresses);
  EXPECT_TRUE(publishing("proxy_checks_addresses = true").proxy_checks_addresses);
  try {
    (void)publishing("ca_file = \"" + authorities + "\"");
    ADD_FAILURE() << "expected a failure";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("publishing.ca_file: there is no file "),
              std::string::npos)
        << failure.what();
  }
  std::ofstream(authorities) << "PEM";
  EXPECT_EQ(publishing("ca_file = \"" + authorities + "\"").ca_file.string(), authorities);
}

TEST_F(ConfigTest, NoticesThatOthersOnTheWayCanReadAreWarnedOf) {
  const auto warnings = [this](const std::string& url) {
    return load_all(
               "[notices]\nsecret = \"literal:whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\nurl = \"" +
               url + "\"\n")
        .warnings;
  };
  for (const char* url : {"http://ops.example/hook", "http://localhost.evil.example:80/",
                          "http://127.0.0.1@ops.example/"}) {
    ASSERT_EQ(warnings(url).size(), 1U) << url;
    EXPECT_NE(warnings(url)[0].find("notices.url"), std::string::npos);
  }
  for (const char* url : {"https://ops.example/hook", "http://127.0.0.1:9000/hook",
                          "http://[::1]:9000/hook", "http://localhost/hook"}) {
    EXPECT_TRUE(warnings(url).empty()) << url;
  }
}

TEST(ConfigKeys, EachHasAPathAVariableAndATextOfItsOwn) {
  std::vector<std::string> paths;
  for (const ConfigKey& key : config_keys()) {
    paths.push_back(key.path);
    EXPECT_TRUE(key.text.ends_with('.')) << key.path;
    EXPECT_FALSE(section_text(key.section()).empty()) << key.path;
    EXPECT_TRUE(std::regex_match(key.path, std::regex("[a-z]+\\.[a-z_]+"))) << key.path;
  }
  std::sort(paths.begin(), paths.end());
  EXPECT_EQ(std::adjacent_find(paths.begin(), paths.end()), paths.end());
  EXPECT_EQ(variable_of("limits.max_body_bytes"), "ONCEBOX_LIMITS_MAX_BODY_BYTES");
}

}  // namespace
}  // namespace oncebox::app
