#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>

#include "commands/commands.hpp"
#include "config/config.hpp"
#include "config/config_options.hpp"
#include "configured_stores.hpp"
#include "failure.hpp"
#include "json_output.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/error.hpp"
#include "oncebox/log.hpp"
#include "oncebox/server/server.hpp"
#include "output.hpp"
#include "printable.hpp"
#include "process_log.hpp"
#include "signals.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

struct ServeOptions {
  ConfigSources sources = {};
  std::string port_file = {};
  bool print_config = false;
  bool json = false;
};

/// Written beside and moved, so that a program that waits for the file reads all of it.
void write_port_file(const std::string& path, std::uint16_t port) {
  const std::string beside = path + ".new";
  std::ofstream file(beside);
  file << port << '\n';
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(beside, path, error);
  if (!file || error) {
    throw Failure(ExitCode::io_error, fmt::format("{} cannot be written", printable(path)));
  }
}

std::string url_of(const server::ServerOptions& options, std::uint16_t port) {
  const std::string& host = options.listen.host;
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return fmt::format("{}://{}:{}", options.tls.enabled() ? "https" : "http",
                     is_ipv6 ? "[" + host + "]" : host, port);
}

void announce(Console& console, const ServeOptions& options, const std::string& url,
              std::uint16_t port) {
  if (!options.port_file.empty()) write_port_file(options.port_file, port);
  console.out.line(options.json ? json_object({{"url", url}, {"port", port}})
                                : fmt::format("oncebox listens on {}", url));
  console.out.flush();
}

/// A server that does not listen yet. What it does not like is the configuration's fault.
std::unique_ptr<server::Server> make_server(const Config& config, StoreSet& stores, Logger& logger,
                                            const Clock& clock) {
  server::ServerOptions options = config.server;
  if (options.default_store.empty() && !config.stores.empty()) {
    options.default_store = config.stores.front().name;
  }
  try {
    return std::make_unique<server::Server>(options, stores,
                                            Surroundings{.logger = logger, .clock = clock});
  } catch (const Error& error) {
    throw Failure(ExitCode::bad_config, error.what());
  }
}

/// SIGHUP: tokens, certificates, discovered stores and the level of the log. Each stays as it is
/// when its new value is wrong.
void reload(server::Server& server, StreamLogger& logger, const ServeOptions& options) {
  try {
    logger.set_min_level(load_config(options.sources).config.log.level);
  } catch (const std::exception& failure) {
    logger.log(LogLevel::error, "the configuration cannot be reloaded; the old one stays",
               {{"cause", failure.what()}});
  }
  (void)server.reload();
}

/// Reloads on a thread of its own: to look for stores may take long, and a signal that comes
/// meanwhile must be heard.
class Reloads {
 public:
  /// Everything is borrowed.
  Reloads(server::Server& server, StreamLogger& logger, const ServeOptions& options)
      : thread_([this, &server, &logger, &options](const std::stop_token& stop) {
          const std::stop_callback wake(stop, [this] {
            const detail::Lock lock(mutex_);
            asked_.notify_one();
          });
          while (wait(stop)) reload(server, logger, options);
        }) {}

  /// Soon. All requests that come while a reload is under way lead to one more.
  void ask() {
    const detail::Lock lock(mutex_);
    is_asked_ = true;
    asked_.notify_one();
  }
  /// No reload begins from now on; one under way goes on.
  void stop() { thread_.request_stop(); }

 private:
  /// False when it ends.
  bool wait(const std::stop_token& stop) {
    const detail::Lock lock(mutex_);
    while (!is_asked_ && !stop.stop_requested()) asked_.wait(mutex_);
    is_asked_ = false;
    return !stop.stop_requested();
  }

  detail::Mutex mutex_;
  detail::Condition asked_;
  bool is_asked_ ONCEBOX_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: it uses the members above
};

/// Drains; a second signal cuts off what is left.
server::DrainResult drain(server::Server& server, Signals& signals, Duration within) {
  const std::jthread second_signal([&](const std::stop_token& stopped) {
    while (!stopped.stop_requested()) {
      const auto signal = signals.wait_for(Duration{50});
      if (!signal || *signal == SIGHUP) continue;
      (void)server.stop(Duration::zero());
      return;
    }
  });
  return server.stop(within);
}

ExitCode serve(Console& console, const ServeOptions& options) {
  if (options.print_config) {
    console.out.write(default_config_file());
    return ExitCode::ok;
  }
  const LoadedConfig loaded = load_config(options.sources);
  const Config& config = loaded.config;
  Signals signals({SIGTERM, SIGINT, SIGHUP});
  const SystemClock clock;
  ProcessLog log(config.log, clock);
  StreamLogger& logger = log.logger();
  for (const std::string& warning : loaded.warnings) logger.log(LogLevel::warning, warning, {});
  ConfiguredStores stores(config, logger);
  const auto server = make_server(config, stores.set(), logger, clock);
  server->start();
  announce(console, options, url_of(config.server, server->port()), server->port());

  Reloads reloads(*server, logger, options);
  while (signals.wait() == SIGHUP) reloads.ask();
  reloads.stop();
  logger.log(LogLevel::info, "draining", {{"within_ms", config.drain_timeout}});
  const server::DrainResult result = drain(*server, signals, config.drain_timeout);
  logger.log(LogLevel::info, "stopped", {{"unanswered", result.unanswered}});
  return result.complete() ? ExitCode::ok : ExitCode::failed;
}

struct ValidateOptions {
  ConfigSources sources = {};
  bool connect = false;
  bool json = false;
};

/// Everything but listening; the stores are opened only when asked for.
LoadedConfig validated_config(const ValidateOptions& options) {
  LoadedConfig loaded = load_config(options.sources);
  if (options.connect) try_stores(loaded.config);
  NullLogger logger;
  const SystemClock clock;
  StoreSet no_stores(std::vector<StoreLocation>{},
                     [](const StoreLocation&) { return std::unique_ptr<Store>(); }, {},
                     {.logger = logger});
  (void)make_server(loaded.config, no_stores, logger, clock);
  return loaded;
}

}  // namespace

Command serve_command() {
  const auto options = std::make_shared<ServeOptions>();
  return {
      .name = "serve",
      .summary = "Start the server",
      .text =
          "Takes its configuration from a TOML file, from environment variables "
          "(ONCEBOX_LISTEN_PORT for listen.port), and from flags; the later ones win. Without "
          "any it serves the SQLite file oncebox.db of this folder on 127.0.0.1:8080.\n\n"
          "SIGTERM and SIGINT end it in order: no new connections, requests under way are "
          "answered within server.drain_timeout. It then ends with code 0, or 1 when it had to "
          "cut some off. A second signal ends it at once. SIGHUP reads tokens, certificates "
          "and the level of the log again, and looks for stores that have come or gone.",
      .options = joined(
          config_options(options->sources),
          {{.names = "--port-file",
            .value = "FILE",
            .text = "write the port into this file as soon as the server listens",
            .take = into(options->port_file),
            .completes = Completes::file},
           {.names = "--print-config",
            .text = "print a commented configuration file with every key and its default, and end",
            .take = into(options->print_config)},
           {.names = "--json",
            .text = "tell where it listens as JSON",
            .take = into(options->json)}}),
      .examples = {{"oncebox serve --store sqlite:/var/lib/oncebox/oncebox.db --port 9000",
                    "Another file and port"},
                   {"oncebox serve --print-config > oncebox.toml", "Begin a configuration"}},
      .run = [options](Console& console) { return serve(console, *options); }};
}

Command validate_command() {
  const auto options = std::make_shared<ValidateOptions>();
  return {
      .name = "validate",
      .summary = "Check the configuration of the server without starting it",
      .text =
          "Reads the same file, variables and flags as serve, tells everything that is wrong "
          "with them, and ends with code 78 then.",
      .options = joined(
          config_options(options->sources),
          {{.names = "--connect",
            .text = "also ask discovery, and open the stores",
            .take = into(options->connect)},
           {.names = "--json", .text = "print JSON for programs", .take = into(options->json)}}),
      .examples = {{"oncebox validate --config /etc/oncebox/oncebox.toml", "Before a restart"}},
      .run = [options](Console& console) {
        const LoadedConfig loaded = validated_config(*options);
        for (const std::string& warning : loaded.warnings) {
          console.err.line("warning: " + warning);
        }
        std::vector<std::string> stores;
        for (const StoreSetting& store : loaded.config.stores) stores.push_back(store.name);
        if (options->json) {
          console.out.line(json_object({{"valid", true},
                                        {"file", loaded.file},
                                        {"stores", RawJson{json_array(stores)}},
                                        {"discovery", loaded.config.discovery.is_on()},
                                        {"webhooks", loaded.config.server.webhooks.size()}}));
        } else {
          console.out.line(fmt::format("valid: {}, {} stores{}, {} webhooks",
                                       loaded.file.empty() ? "no file" : printable(loaded.file),
                                       stores.size(),
                                       loaded.config.discovery.is_on() ? " and discovery" : "",
                                       loaded.config.server.webhooks.size()));
        }
        return ExitCode::ok;
      }};
}

}  // namespace oncebox::app
