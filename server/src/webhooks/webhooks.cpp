#include "webhooks/webhooks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "api/call_pool.hpp"
#include "api/intake.hpp"
#include "api/large_bodies.hpp"
#include "http/answers.hpp"
#include "observe/metrics.hpp"
#include "oncebox/error.hpp"
#include "oncebox/wire/queue_json.hpp"
#include "webhooks/webhook_headers.hpp"
#include "webhooks/webhook_signature.hpp"
#include "webhooks/webhook_template.hpp"

namespace oncebox::server {

namespace {

// Where each scheme has them.
std::optional<std::string_view> usual_message_id(WebhookScheme scheme) {
  switch (scheme) {
    case WebhookScheme::stripe:
      return "{json:/id}";
    case WebhookScheme::github:
      return "{header:X-GitHub-Delivery}";
    case WebhookScheme::standard_webhooks:
      return "{header:webhook-id}";
    case WebhookScheme::hmac:
    case WebhookScheme::none:
      break;
  }
  return std::nullopt;
}

std::optional<std::string_view> usual_topic(WebhookScheme scheme) {
  switch (scheme) {
    case WebhookScheme::github:
      return "{header:X-GitHub-Event}";
    case WebhookScheme::stripe:
    case WebhookScheme::standard_webhooks:
      return "{json:/type}";
    case WebhookScheme::hmac:
    case WebhookScheme::none:
      break;
  }
  return std::nullopt;
}

bool is_webhook_name(std::string_view name) {
  constexpr std::size_t kMaxLength = 100;
  return !name.empty() && name.size() <= kMaxLength &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_';
         });
}

/// Runs `make`, and puts the webhook and the option before what it complains about.
template <class Make>
auto with_option(const WebhookOptions& webhook, std::string_view option, Make make) {
  try {
    return make();
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("webhook \"{}\": {}{}", webhook.name, option, error.what()));
  }
}

std::string_view metric_outcome(EnqueueStatus status) {
  switch (status) {
    case EnqueueStatus::accepted:
    case EnqueueStatus::updated:
    case EnqueueStatus::superseding:
    case EnqueueStatus::revived:
      return "accepted";
    case EnqueueStatus::duplicate:
    case EnqueueStatus::duplicate_done:
    case EnqueueStatus::duplicate_dead:
      break;
    case EnqueueStatus::rejected:
    case EnqueueStatus::quarantined:
      return to_string(status);
  }
  return "duplicate";
}

/// One address, ready to make messages of its requests.
class Webhook {
 public:
  explicit Webhook(const WebhookOptions& options)
      : name_(checked_name(options.name)),
        signature_(with_option(options, "", [&] { return WebhookSignature(options); })),
        store_(options.store.empty() ? std::nullopt
                                     : read_template(options, "store", options.store)),
        has_store_by_request_(options.has_store_by_request()),
        source_(read_template(options, "source", options.source)),
        message_id_(read_template(options, "message_id", options.message_id,
                                  usual_message_id(options.scheme))),
        // Only where the other is missing are these what is signed.
        svix_message_id_(options.scheme == WebhookScheme::standard_webhooks && !options.message_id
                             ? std::optional(WebhookTemplate("{header:svix-id}"))
                             : std::nullopt),
        topic_(read_template(options, "topic", options.topic, usual_topic(options.scheme))),
        partition_key_(
            read_template(options, "partition_key", options.partition_key, std::nullopt)) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const WebhookSignature& signature() const noexcept { return signature_; }

  /// Throws `invalid_argument` when what the templates give cannot be a name.
  [[nodiscard]] Message message_of(const Request& request) const {
    WebhookView view(name_, request);
    const auto text_or_name = [&](const std::optional<WebhookTemplate>& form) {
      return render(form, view).value_or(name_);
    };
    auto id = render(message_id_, view);
    if (!id) id = render(svix_message_id_, view);
    if (!id) id = to_hex(view.sha256());
    Message message{.key = {text_or_name(source_), std::move(*id)},
                    .topic = text_or_name(topic_),
                    .payload = request.body};
    message.hash = ContentHash(std::string(ContentHash::kSha256), view.sha256());
    if (auto key = render(partition_key_, view)) message.partition_key = std::move(*key);
    message.headers = webhook_headers(request);
    return message;
  }

  /// The store that a request is for; empty: the default one. Never another one than the request
  /// names: throws `invalid_argument` when it names none.
  [[nodiscard]] std::string store_of(const Request& request) const {
    if (!store_) return {};
    WebhookView view(name_, request);
    if (auto name = store_->render(view)) return std::move(*name);
    throw Error(ErrorCode::invalid_argument,
                "the request does not say which store it is for, as this webhook asks for");
  }
  [[nodiscard]] bool has_store_by_request() const noexcept { return has_store_by_request_; }

  /// Whether something may stand behind the name in the path.
  [[nodiscard]] bool takes_path() const noexcept {
    const auto uses_path = [](const std::optional<WebhookTemplate>& form) {
      return form && form->uses_path();
    };
    return uses_path(store_) || uses_path(source_) || uses_path(message_id_) || uses_path(topic_) ||
           uses_path(partition_key_);
  }

 private:
  static const std::string& checked_name(const std::string& name) {
    if (is_webhook_name(name)) return name;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("webhook \"{}\": a name has 1 to 100 letters, digits, - and _", name));
  }

  static std::optional<WebhookTemplate> read_template(const WebhookOptions& webhook,
                                                      std::string_view option,
                                                      const std::optional<std::string>& given,
                                                      std::optional<std::string_view> usual = {}) {
    if (given) usual = *given;
    if (!usual) return std::nullopt;
    return with_option(webhook, fmt::format("{}: the template ", option),
                       [&] { return WebhookTemplate(*usual); });
  }

  static std::optional<std::string> render(const std::optional<WebhookTemplate>& form,
                                           WebhookView& view) {
    return form ? form->render(view) : std::nullopt;
  }

  const std::string name_;
  const WebhookSignature signature_;
  const std::optional<WebhookTemplate> store_;
  const bool has_store_by_request_;
  const std::optional<WebhookTemplate> source_;
  const std::optional<WebhookTemplate> message_id_;
  const std::optional<WebhookTemplate> svix_message_id_;
  const std::optional<WebhookTemplate> topic_;
  const std::optional<WebhookTemplate> partition_key_;
};

[[noreturn]] void refuse_second(const WebhookOptions& options) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("webhook \"{}\": there is another of this name", options.name));
}

}  // namespace

void validate_webhooks(const std::vector<WebhookOptions>& webhooks) {
  for (auto options = webhooks.begin(); options != webhooks.end(); ++options) {
    const auto has_name = [&](const auto& other) { return other.name == options->name; };
    if (std::any_of(webhooks.begin(), options, has_name)) refuse_second(*options);
    (void)Webhook(*options);
  }
}

class Webhooks::Impl : public std::enable_shared_from_this<Webhooks::Impl> {
 public:
  Impl(const std::vector<WebhookOptions>& webhooks, FindStore find_store, CallPool& calls,
       Metrics& metrics, Logger& logger, const Clock& clock)
      : find_store_(std::move(find_store)),
        calls_(calls),
        metrics_(metrics),
        logger_(logger),
        clock_(clock) {
    for (const WebhookOptions& options : webhooks) {
      if (find(options.name) != nullptr) refuse_second(options);
      served_.push_back(std::make_unique<const Webhook>(options));
    }
  }

  /// The webhook that a request is for. Throws `not_found`.
  [[nodiscard]] const Webhook& webhook_of(const Request& request) const {
    const Webhook* const webhook = find(request.arguments.at(0));
    if (webhook == nullptr) {
      throw Error(ErrorCode::not_found, "there is no webhook of this name");
    }
    if (request.arguments.size() > 1 && !webhook->takes_path()) {
      throw Error(ErrorCode::not_found, "nothing stands behind the name of this webhook");
    }
    return *webhook;
  }

  void receive(const ExchangePtr& exchange) {
    const Webhook& webhook = webhook_of(exchange->request());
    // In the lane of no store: a sender learns whether the store is there after its signature.
    call_with_body(calls_, exchange, [self = shared_from_this(), &webhook, exchange] {
      self->check_and_store(webhook, exchange);
    });
  }

 private:
  [[nodiscard]] const Webhook* find(std::string_view name) const noexcept {
    for (const auto& webhook : served_) {
      if (webhook->name() == name) return webhook.get();
    }
    return nullptr;
  }

  [[nodiscard]] ServedStorePtr find_store(const Webhook& webhook, const Request& request) const {
    try {
      return find_store_(webhook.store_of(request));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found || webhook.has_store_by_request()) throw;
      // The sender has made no mistake, and may try again.
      throw Error(ErrorCode::unavailable, "the store of this webhook is not there");
    }
  }

  void check_and_store(const Webhook& webhook, const ExchangePtr& exchange) {
    const SignatureCheck check = webhook.signature().check(exchange->request(), clock_.now());
    if (check == SignatureCheck::good) {
      store(webhook, exchange);
    } else {
      refuse(webhook, check, *exchange);
    }
  }

  void refuse(const Webhook& webhook, SignatureCheck check, Exchange& exchange) {
    const Request& request = exchange.request();
    metrics_.on_webhook(webhook.name(), "bad_signature");
    logger_.log(LogLevel::warning, "webhook refused",
                {{"webhook", webhook.name()},
                 {"reason", explanation(check)},
                 {"peer", request.peer},
                 {"request_id", request.id}});
    Response response = problem_response({.status = 401,
                                          .code = "unauthorized",
                                          .title = "The sender has not proved who it is",
                                          .detail = std::string(explanation(check))},
                                         request);
    response.fields.add("WWW-Authenticate", "Signature");
    exchange.send(std::move(response));
  }

  void store(const Webhook& webhook, const ExchangePtr& exchange) {
    try {
      Message message = webhook.message_of(exchange->request());
      message.request_id = exchange->request().id;
      MessageKey key = message.key;
      const ServedStorePtr store = find_store(webhook, exchange->request());
      exchange->note_store(store->name());
      store->inbox.singles.enqueue_then(
          std::move(message), [self = shared_from_this(), &webhook, exchange, store,
                               key = std::move(key)](const detail::Intake::Result& result) {
            self->finish(webhook, key, result, *exchange);
          });
    } catch (const Error& error) {
      const bool is_ours = error.retryable() || error.code() == ErrorCode::internal;
      metrics_.on_webhook(webhook.name(), is_ours ? "failed" : "bad_request");
      throw;
    }
  }

  void finish(const Webhook& webhook, const MessageKey& key, const detail::Intake::Result& result,
              Exchange& exchange) {
    metrics_.on_webhook(webhook.name(),
                        result.ok() ? metric_outcome(result.outcome().status) : "failed");
    if (!result.ok() && wire::http_status(result.error()->code()) >= 500) {
      return exchange.send(not_stored(*result.error(), exchange.request()));
    }
    answer(exchange, [&] { return json_response(wire::write_enqueued(key, result.outcome())); });
  }

  /// Senders have no token: what the driver says of hosts and users is for the log.
  [[nodiscard]] static Response not_stored(const Error& error, const Request& request) {
    wire::Problem problem = wire::problem_of(error);
    problem.detail = "the message may not be stored; send it again";
    Response response = problem_response(std::move(problem), request);
    response.cause = error.what();
    return response;
  }

  const FindStore find_store_;
  CallPool& calls_;
  Metrics& metrics_;
  Logger& logger_;
  const Clock& clock_;
  std::vector<std::unique_ptr<const Webhook>> served_;
};

Webhooks::Webhooks(const std::vector<WebhookOptions>& webhooks, FindStore find_store,
                   CallPool& calls, Metrics& metrics, Logger& logger, const Clock& clock)
    : impl_(
          std::make_shared<Impl>(webhooks, std::move(find_store), calls, metrics, logger, clock)) {}

Webhooks::~Webhooks() = default;

void Webhooks::add_routes(Router& router) {
  for (const char* const pattern : {"/v1/webhooks/{name}", "/v1/webhooks/{name}/{path*}"}) {
    router.add(
        {.method = Method::post,
         .pattern = pattern,
         .scope = Scope::open,
         .handler = [this](const ExchangePtr& exchange) { impl_->receive(exchange); },
         .check_head = [this](const Request& request) { (void)impl_->webhook_of(request); }});
  }
}

}  // namespace oncebox::server
