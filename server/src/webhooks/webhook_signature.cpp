#include "webhooks/webhook_signature.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "oncebox/ed25519.hpp"
#include "oncebox/error.hpp"
#include "oncebox/hmac.hpp"
#include "oncebox/webhook/webhook_signer.hpp"
#include "oncebox/wire/encoding.hpp"

namespace oncebox::server {

namespace {

bool same_bytes(std::string_view left, std::string_view right) {
  return left.size() == right.size() && CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

std::optional<std::string> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    unsigned char byte = 0;
    const char* end = text.data() + i + 2;
    if (std::from_chars(text.data() + i, end, byte, 16).ptr != end) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Calls `part` with what stands between the separators.
template <class Part>
void for_each_part(std::string_view text, char separator, Part part) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    part(trimmed(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// Unix seconds; nothing for what cannot be such a time.
std::optional<std::int64_t> read_seconds(std::string_view text) {
  constexpr std::size_t kMaxDigits = 12;  // the year 33,658; and no overflow
  if (text.empty() || text.size() > kMaxDigits) return std::nullopt;
  std::int64_t seconds = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, seconds);
  return read.ptr == end && text.front() != '-' ? std::optional(seconds) : std::nullopt;
}

struct StandardNames {
  std::string_view id;
  std::string_view timestamp;
  std::string_view signature;
};
constexpr StandardNames kStandardNames{"webhook-id", "webhook-timestamp", "webhook-signature"};
constexpr StandardNames kSvixNames{"svix-id", "svix-timestamp", "svix-signature"};

/// Svix's own, where there is none of the others: the two are never mixed, so that nobody can put
/// an id that is not signed before one that is.
const StandardNames& standard_names(const Request& request) {
  const auto has = [&](std::string_view name) { return request.fields.get(name).has_value(); };
  const bool has_any =
      has(kStandardNames.id) || has(kStandardNames.timestamp) || has(kStandardNames.signature);
  return has_any || !has(kSvixNames.id) ? kStandardNames : kSvixNames;
}

struct StandardSignatures {
  std::vector<std::string> symmetric;   // v1
  std::vector<std::string> asymmetric;  // v1a
};

StandardSignatures read_standard_signatures(std::string_view header) {
  // Each takes a while to check, and strangers can send many.
  constexpr std::size_t kMostAsymmetric = 8;
  StandardSignatures signatures;
  const auto read = [](std::string_view part, std::vector<std::string>& into) {
    if (auto signature = wire::from_base64(part)) into.push_back(std::move(*signature));
  };
  for_each_part(header, ' ', [&](std::string_view part) {
    if (part.starts_with("v1,")) read(part.substr(3), signatures.symmetric);
    const bool has_room = signatures.asymmetric.size() < kMostAsymmetric;
    if (part.starts_with("v1a,") && has_room) read(part.substr(4), signatures.asymmetric);
  });
  return signatures;
}

HmacAlgorithm algorithm_of(const WebhookOptions& options) {
  return options.scheme == WebhookScheme::hmac ? options.hmac.algorithm : HmacAlgorithm::sha256;
}

void validate_scheme(const WebhookOptions& options) {
  const auto refuse = [](const char* why) { throw Error(ErrorCode::invalid_argument, why); };
  const bool checks = options.scheme != WebhookScheme::none;
  if (checks && options.secrets.empty()) refuse("secrets: there is none to check signatures with");
  if (!checks && !options.secrets.empty()) {
    refuse("secrets: the scheme \"none\" checks nothing; remove them or choose another scheme");
  }
  if (std::any_of(options.secrets.begin(), options.secrets.end(),
                  [](const std::string& secret) { return secret.empty(); })) {
    refuse("secrets: one of them is empty");
  }
  if (options.scheme == WebhookScheme::hmac && options.hmac.header.empty()) {
    refuse("hmac.header: it must name the header that has the signature");
  }
  if (options.scheme != WebhookScheme::hmac && !options.hmac.header.empty()) {
    refuse("hmac.header: only the scheme \"hmac\" looks at it");
  }
  if (options.tolerance <= Duration::zero() || options.tolerance > std::chrono::hours{24}) {
    throw Error(ErrorCode::out_of_range, "tolerance: it must be more than 0 and at most 24 hours");
  }
}

}  // namespace

std::string_view explanation(SignatureCheck check) noexcept {
  switch (check) {
    case SignatureCheck::good:
      return "the signature is good";
    case SignatureCheck::missing:
      return "the request has no signature, or lacks a header that is signed with it";
    case SignatureCheck::malformed:
      return "the header with the signature or its time has not the form that is expected here";
    case SignatureCheck::wrong:
      return "the signature does not belong to this body and a secret that is valid here";
    case SignatureCheck::untimely:
      return "the signed time is too far from the time here";
  }
  return "the signature cannot be checked";
}

class WebhookSignature::Impl {
 public:
  explicit Impl(const WebhookOptions& options)
      : scheme_(options.scheme), hmac_(options.hmac), tolerance_(options.tolerance) {
    validate_scheme(options);
    for (const std::string& secret : options.secrets) {
      if (scheme_ == WebhookScheme::standard_webhooks) {
        add_standard_secret(secret);
      } else {
        keys_.emplace_back(secret, algorithm_of(options));
      }
    }
  }

  SignatureCheck check(const Request& request, TimePoint now) const {
    switch (scheme_) {
      case WebhookScheme::stripe:
        return check_stripe(request, now);
      case WebhookScheme::github:
        return check_header(request, {.header = "X-Hub-Signature-256", .prefix = "sha256="});
      case WebhookScheme::standard_webhooks:
        return check_standard_webhooks(request, now);
      case WebhookScheme::hmac:
        return check_header(request, hmac_);
      case WebhookScheme::none:
        return SignatureCheck::good;
    }
    return SignatureCheck::wrong;
  }

 private:
  void add_standard_secret(std::string_view secret) {
    if (secret.starts_with("whpk_")) {
      public_keys_.emplace_back(webhook::decode_public_key(secret));
      return;
    }
    if (secret.starts_with("whsk_")) {
      throw Error(ErrorCode::invalid_argument,
                  "secrets: one of them is the secret key of a sender, \"whsk_\"; a receiver has "
                  "its public key, \"whpk_\"");
    }
    keys_.emplace_back(webhook::decode_standard_secret(secret), HmacAlgorithm::sha256);
  }

  /// Whether one of the secrets makes one of the signatures. Tries them all.
  bool is_signed(std::initializer_list<std::string_view> pieces,
                 const std::vector<std::string>& signatures) const {
    bool found = false;
    for (const HmacKey& key : keys_) {
      const std::string expected = key.sign(pieces);
      for (const std::string& signature : signatures) {
        const bool same = same_bytes(expected, signature);
        found = found || same;
      }
    }
    return found;
  }

  SignatureCheck judge_time(std::int64_t signed_seconds, TimePoint now) const {
    const TimePoint signed_at{std::chrono::seconds{signed_seconds}};
    const Duration apart = signed_at > now ? signed_at - now : now - signed_at;
    return apart <= tolerance_ ? SignatureCheck::good : SignatureCheck::untimely;
  }

  /// `t=1492774577,v1=5257a869…,v1=…`; what else there is belongs to other versions.
  SignatureCheck check_stripe(const Request& request, TimePoint now) const {
    const auto header = request.fields.get("Stripe-Signature");
    if (!header) return SignatureCheck::missing;
    std::string_view time;
    std::vector<std::string> signatures;
    for_each_part(*header, ',', [&](std::string_view part) {
      if (part.starts_with("t=")) time = part.substr(2);
      if (!part.starts_with("v1=")) return;
      if (auto signature = from_hex(part.substr(3))) signatures.push_back(std::move(*signature));
    });
    const auto seconds = read_seconds(time);
    if (!seconds || signatures.empty()) return SignatureCheck::malformed;
    if (!is_signed({time, ".", request.body}, signatures)) return SignatureCheck::wrong;
    return judge_time(*seconds, now);
  }

  /// Whether one of the signatures was made with the secret key of one of the public ones.
  bool is_signed_with_ed25519(std::string_view message,
                              const std::vector<std::string>& signatures) const {
    bool found = false;
    for (const Ed25519PublicKey& key : public_keys_) {
      for (const std::string& signature : signatures) {
        const bool is_good = key.verifies(message, signature);
        found = found || is_good;
      }
    }
    return found;
  }

  /// `v1,K5oZfz…= v1a,…`; what else there is belongs to other versions.
  SignatureCheck check_standard_webhooks(const Request& request, TimePoint now) const {
    const StandardNames names = standard_names(request);
    const auto id = request.fields.get(names.id);
    const auto time = request.fields.get(names.timestamp);
    const auto header = request.fields.get(names.signature);
    if (!id || !time || !header) return SignatureCheck::missing;
    const StandardSignatures signatures = read_standard_signatures(*header);
    const auto seconds = read_seconds(*time);
    // A dot in the id could move the border between what is signed: msg.1 and 2 sign as msg and
    // 1.2 would.
    const bool has_dot = id->find('.') != std::string_view::npos;
    const bool has_none = signatures.symmetric.empty() && signatures.asymmetric.empty();
    if (!seconds || has_none || id->empty() || has_dot) return SignatureCheck::malformed;
    const bool is_good = is_signed({*id, ".", *time, ".", request.body}, signatures.symmetric) ||
                         (!public_keys_.empty() && !signatures.asymmetric.empty() &&
                          is_signed_with_ed25519(fmt::format("{}.{}.{}", *id, *time, request.body),
                                                 signatures.asymmetric));
    return is_good ? judge_time(*seconds, now) : SignatureCheck::wrong;
  }

  SignatureCheck check_header(const Request& request, const HmacOptions& form) const {
    const auto header = request.fields.get(form.header);
    if (!header) return SignatureCheck::missing;
    std::string_view text = trimmed(*header);
    if (!text.starts_with(form.prefix)) return SignatureCheck::malformed;
    text.remove_prefix(form.prefix.size());
    const auto signature =
        form.encoding == SignatureEncoding::hex ? from_hex(text) : wire::from_base64(text);
    if (!signature || signature->empty()) return SignatureCheck::malformed;
    return is_signed({request.body}, {*signature}) ? SignatureCheck::good : SignatureCheck::wrong;
  }

  const WebhookScheme scheme_;
  const HmacOptions hmac_;
  const Duration tolerance_;
  std::vector<HmacKey> keys_;
  std::vector<Ed25519PublicKey> public_keys_;
};

WebhookSignature::WebhookSignature(const WebhookOptions& options)
    : impl_(std::make_unique<const Impl>(options)) {}
WebhookSignature::~WebhookSignature() = default;
WebhookSignature::WebhookSignature(WebhookSignature&&) noexcept = default;

SignatureCheck WebhookSignature::check(const Request& request, TimePoint now) const {
  return impl_->check(request, now);
}

}  // namespace oncebox::server
