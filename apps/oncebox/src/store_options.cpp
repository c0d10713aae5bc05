#include "store_options.hpp"

#include <cstdlib>

#include "choices.hpp"
#include "failure.hpp"
#include "files.hpp"
#include "oncebox/wire/encoding.hpp"
#include "values.hpp"

namespace oncebox::app {

bool is_server(const std::string& url) {
  return url.starts_with("http:") || url.starts_with("https:");
}

// A file of a token is named to the store, which reads it again when the token was replaced.
std::string whole_url(const StoreOptions& options) {
  std::string url = options.url;
  const auto add = [&url](std::string_view name, const std::string& value) {
    url += url.find('?') == std::string::npos ? '?' : '&';
    url += name;
    url += '=' + wire::percent_encode(value);
  };
  if (!options.store.empty()) {
    if (!is_server(url)) {
      throw Failure(ExitCode::usage, "--store names a store of a server; --url has none");
    }
    add("store", options.store);
  }
  if (is_server(url) && !options.token_file.empty()) {
    (void)read_secret_file(options.token_file);
    add("token_file", options.token_file);
  }
  return url;
}

StoreCredentials own_credentials() {
  const char* token = std::getenv("ONCEBOX_TOKEN");
  return {.token = token != nullptr ? token : ""};
}

std::vector<Option> service_options(StoreOptions& options) {
  return {
      {.names = "-u,--url",
       .value = "URL",
       .text = "a server (http://...)",
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

std::vector<Option> store_options(StoreOptions& options) {
  std::vector<Option> all = service_options(options);
  all.front().text = "a server (http://...) or a store (sqlite:PATH, postgresql://...)";
  all.insert(all.begin() + 1, {.names = "--store",
                               .value = "NAME",
                               .text = "the store of a server, instead of its default one",
                               .take = into(options.store)});
  return all;
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
    : store_(open_store(whole_url(options), own_credentials())), queue_(options.queue) {}

QueueStore& OpenStore::queue() const { return store_->queue(queue_); }

QueueOperator& OpenStore::queue_operator() const { return store_->queue_operator(queue_); }

}  // namespace oncebox::app
