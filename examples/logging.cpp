// Where log lines go: to a stream as text or JSON, at a level that changes while the program runs,
// or to whatever logs the rest of a program.

#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/log.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/testing/fake_clock.hpp"

namespace {

using namespace oncebox;

/// What a configuration says.
std::unique_ptr<StreamLogger> make_logger(std::string_view format, std::ostream& out,
                                          const Clock& clock) {
  const LogOptions options{.min_level = LogLevel::warning};
  if (format == "json") return std::make_unique<JsonLogger>(out, clock, options);
  return std::make_unique<TextLogger>(out, clock, options);
}

/// Hands every line to the logging library of a program; here that is std::cout.
class OwnLogger final : public Logger {
 public:
  [[nodiscard]] bool enabled(LogLevel level) const noexcept override {
    return level >= LogLevel::error;
  }
  void write(LogLevel level, std::string_view text,
             std::span<const LogField> fields) noexcept override {
    std::cout << '[' << to_string(level) << "] " << text;
    for (const LogField& field : fields) {
      if (field.name() == "topic" || field.name() == "error") {
        std::cout << ", " << field.name() << ": " << text_of(field.value());
      }
    }
    std::cout << '\n';
  }

 private:
  static std::string text_of(const LogField::Value& value) {
    std::ostringstream text;
    std::visit(
        [&](const auto& known) {
          if constexpr (std::is_same_v<decltype(known), const Uuid&>) {
            text << known.to_string();
          } else {
            text << known;
          }
        },
        value);
    return text.str();
  }
};

}  // namespace

int main() {
  const testing::FakeClock clock;  // so that the time is the same in every run
  for (const char* format : {"text", "json"}) {
    const auto logger = make_logger(format, std::cout, clock);
    logger->log(LogLevel::info, "nobody reads this", {});
    // As when somebody wants to see more, for a while.
    logger->set_min_level(LogLevel::info);
    logger->log(LogLevel::info, "order shipped",
                {{"order", "order 1"}, {"parcels", 2}, {"insured", true}});
  }

  OwnLogger logger;
  const Surroundings surroundings{.logger = logger, .clock = clock};
  memory::MemoryStore store(clock);
  Inbox inbox(store, {}, surroundings);
  inbox.enqueue({.key = {"shop", "order-1"}, .topic = "order.paid", .payload = "a secret"});
  Handlers handlers;
  handlers.on("order.*", [](const ClaimedMessage&, HandlerContext&) {
    throw PermanentFailure("there is no such order");
  });
  Dispatcher dispatcher(store.inbox(), handlers, {}, surroundings);
  dispatcher.start();
  if (!dispatcher.wait_until_idle({.timeout = std::chrono::seconds{30}})) return 1;
}
