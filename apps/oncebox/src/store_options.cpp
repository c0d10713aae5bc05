#include "store_options.hpp"

#include <cstdlib>

#include "files.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/wire/encoding.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

constexpr Choice<QueueChoice> kQueues[] = {{"inbox", QueueChoice::inbox},
                                           {"outbox", QueueChoice::outbox}};

/// A file is named to the store, which reads it again when the token was replaced.
std::unique_ptr<Store> open_with_token(const StoreOptions& options) {
  const bool is_server = options.url.starts_with("http:") || options.url.starts_with("https:");
  if (is_server && !options.token_file.empty()) {
    (void)read_secret_file(options.token_file);
    const char separator = options.url.find('?') == std::string::npos ? '?' : '&';
    return open_store(options.url + separator +
                      "token_file=" + wire::percent_encode(options.token_file));
  }
  const char* token = std::getenv("ONCEBOX_TOKEN");
  return open_store(options.url, {.token = token != nullptr ? token : ""});
}

}  // namespace

std::vector<Option> store_options(StoreOptions& options) {
  return {
      {.names = "-u,--url",
       .value = "URL",
       .text = "a server (http://...) or a store (sqlite:PATH, postgresql://...)",
       .take = into(options.url),
       .initial = options.url,
       .variable = "ONCEBOX_URL"},
      {.names = "--token-file",
       .value = "FILE",
       .text = "a file with the bearer token for a server; otherwise ONCEBOX_TOKEN is used",
       .take = into(options.token_file),
       .completes = Completes::file},
      {.names = "--json", .text = "print JSON for programs", .take = into(options.json)},
  };
}

std::vector<Option> queue_options(StoreOptions& options) {
  return joined({{.names = "--queue",
                  .value = "QUEUE",
                  .text = "which queue of the store",
                  .take = into(options.queue, kQueues),
                  .initial = "inbox",
                  .choices = words_of(kQueues)}},
                store_options(options));
}

OpenStore::OpenStore(const StoreOptions& options)
    : store_(open_with_token(options)), queue_(options.queue) {}

QueueStore& OpenStore::queue() const {
  return queue_ == QueueChoice::inbox ? store_->inbox() : store_->outbox();
}

QueueOperator& OpenStore::queue_operator() const {
  return queue_ == QueueChoice::inbox ? store_->inbox_operator() : store_->outbox_operator();
}

}  // namespace oncebox::app
