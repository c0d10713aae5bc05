#include <fmt/format.h>

#include <memory>

#include "commands/commands.hpp"
#include "json_output.hpp"
#include "oncebox/driver/store_url.hpp"
#include "oncebox/error.hpp"
#include "oncebox/open_store.hpp"
#include "output.hpp"
#include "store_options.hpp"

namespace oncebox::app {
namespace {

bool has_schema(const StoreUrl& url) {
  return url.scheme() == "sqlite" || url.scheme() == "postgresql" || url.scheme() == "postgres";
}

/// The URL with deployment of the schema switched as said, whatever it said before.
std::string with_deployment(const std::string& text, std::string_view value) {
  StoreUrl url(text);
  if (!has_schema(url)) return text;
  (void)url.take("schema_deployment");
  std::string result = url.without_taken();
  result += result.find('?') == std::string::npos ? '?' : '&';
  return result + fmt::format("schema_deployment={}", value);
}

struct Migrated {
  int version = 0;
  bool changed = false;
};

Migrated migrate_store(const StoreOptions& options) {
  StoreOptions as_is = options;
  as_is.url = with_deployment(options.url, "off");
  try {
    const OpenStore store(as_is);
    const MigrationResult result = store.store().migrate();
    return {result.to_version, result.from_version != result.to_version};
  } catch (const Error& error) {
    // Missing or older; a newer one is refused again below.
    if (error.code() != ErrorCode::conflict) throw;
  }
  StoreOptions deploying = options;
  deploying.url = with_deployment(options.url, "on");
  const OpenStore store(deploying);
  return {store.store().migrate().to_version, true};
}

}  // namespace

Command migrate_command() {
  const auto options = std::make_shared<StoreOptions>();
  return {.name = "migrate",
          .summary = "Create a store's tables, or bring them to this version",
          .text =
              "May be repeated, and run by several at once. Needs the URL of the store itself, "
              "not of a server, and a user who may create tables.",
          .options = store_options(*options),
          .examples = {{"oncebox migrate --url 'postgresql://admin@db/shop?schema=oncebox'",
                        "Before the first start on PostgreSQL"}},
          .run = [options](Console& console) {
            const Migrated result = migrate_store(*options);
            if (options->json) {
              console.out.line(
                  json_object({{"schemaVersion", result.version}, {"changed", result.changed}}));
            } else {
              console.out.line(fmt::format("the schema {} version {}",
                                           result.changed ? "was brought to" : "already has",
                                           result.version));
            }
            return ExitCode::ok;
          }};
}

}  // namespace oncebox::app
