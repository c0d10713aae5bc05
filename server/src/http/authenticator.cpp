#include "http/authenticator.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "oncebox/error.hpp"
#include "oncebox/names.hpp"

namespace oncebox::server {

namespace {

constexpr std::size_t kMaxTokenFileBytes = 1 << 20;
constexpr std::size_t kMaxTokenBytes = 4 << 10;
constexpr std::size_t kShortSecretBytes = 16;
constexpr std::string_view kCertificatePrefix = "cert:";
constexpr std::string_view kSpaces = " \t\r";

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

/// Cuts the first word off a trimmed text.
std::string_view cut_word(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_of(kSpaces), text.size());
  const std::string_view word = text.substr(0, end);
  text = trim(text.substr(end));
  return word;
}

/// A `#` at the beginning or behind a space: it may well stand in a secret.
std::string_view without_comment(std::string_view line) {
  for (std::size_t at = line.find('#'); at != std::string_view::npos; at = line.find('#', at + 1)) {
    if (at == 0 || kSpaces.find(line[at - 1]) != std::string_view::npos) return line.substr(0, at);
  }
  return line;
}

[[noreturn]] void refuse_line(const std::string& where, std::string_view why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", where, why));
}

ScopeBits read_scopes(std::string_view list, const std::string& where) {
  ScopeBits bits = 0;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    const std::string_view word = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    ScopeBits found = 0;
    for (const Scope scope : {Scope::read, Scope::produce, Scope::consume, Scope::operate}) {
      if (word == to_string(scope)) found = bit_of(scope);
    }
    if (found == 0) refuse_line(where, "a scope is none of produce, consume, operate, read");
    bits |= found;
  }
  if ((bits & bit_of(Scope::operate)) != 0) bits |= bit_of(Scope::read);
  return bits;
}

constexpr const char* kExpectedLine =
    "expected NAME SCOPE[,SCOPE] SECRET [stores=…] [sources=…] [topics=…]";

std::vector<TopicPattern> read_patterns(std::string_view list, const std::string& where) {
  std::vector<TopicPattern> patterns;
  for (bool is_last = false; !is_last;) {
    const std::size_t end = list.find(',');
    is_last = end == std::string_view::npos;
    try {
      patterns.emplace_back(std::string(list.substr(0, end)));
    } catch (const Error&) {
      refuse_line(where, "a limit has names with commas between, each perhaps with * at its end");
    }
    if (!is_last) list.remove_prefix(end + 1);
  }
  return patterns;
}

/// The list that a word such as `topics=order.*` is for; null: the word is no limit.
std::vector<TopicPattern>* limit_named(std::string_view word, TokenLimits& limits) {
  if (word.starts_with("stores=")) return &limits.stores;
  if (word.starts_with("sources=")) return &limits.sources;
  if (word.starts_with("topics=")) return &limits.topics;
  return nullptr;
}

/// Cuts the limits off the end of a line. Null: it has none.
std::shared_ptr<const TokenLimits> cut_limits(std::string_view& line, const std::string& where) {
  TokenLimits limits;
  while (true) {
    const std::size_t space = line.find_last_of(kSpaces);
    if (space == std::string_view::npos) break;
    const std::string_view word = line.substr(space + 1);
    std::vector<TopicPattern>* const list = limit_named(word, limits);
    if (list == nullptr) break;
    if (!list->empty()) refuse_line(where, "a limit is there twice");
    *list = read_patterns(word.substr(word.find('=') + 1), where);
    line = trim(line.substr(0, space));
  }
  return limits.empty() ? nullptr : std::make_shared<const TokenLimits>(std::move(limits));
}

/// A token's name is the source of what its holder sends without one.
void require_token_name(const std::string& name, const std::string& where) {
  if (name == Principal::kAnonymous) {
    refuse_line(where, "the name anonymous is for callers without a token; choose another");
  }
  try {
    (void)Source(name);
  } catch (const Error&) {
    refuse_line(where, "a name has at most 255 characters, in UTF-8");
  }
}

/// The token in `Authorization: Bearer TOKEN`.
std::optional<std::string_view> bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (authorization.size() <= kScheme.size() ||
      !equal_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) {
    return std::nullopt;
  }
  const std::string_view token = trim(authorization.substr(kScheme.size()));
  if (token.empty() || token.size() > kMaxTokenBytes) return std::nullopt;
  return token;
}

}  // namespace

Authenticator::Authenticator(const AuthOptions& options, Logger& logger)
    : options_(options), logger_(logger), entries_(load()), has_tokens_(!entries_->empty()) {}

void Authenticator::reload() {
  auto fresh = load();
  const detail::Lock lock(mutex_);
  entries_ = std::move(fresh);
  has_tokens_ = !entries_->empty();
}

std::shared_ptr<const Authenticator::Entries> Authenticator::entries() const {
  const detail::Lock lock(mutex_);
  return entries_;
}

Authenticator::Digest Authenticator::digest(std::string_view text) {
  Digest result{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), result.data());
  return result;
}

std::shared_ptr<const Authenticator::Entries> Authenticator::load() const {
  auto entries = std::make_shared<Entries>();
  if (!options_.token_file.empty()) {
    const std::string path = options_.token_file.string();
    std::ifstream file(path, std::ios::binary);
    std::string text(kMaxTokenFileBytes + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (!file.is_open() || file.bad()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("auth.token_file: {} cannot be read", path));
    }
    text.resize(static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMaxTokenFileBytes) {
      throw Error(ErrorCode::invalid_argument, "auth.token_file: larger than 1 MiB");
    }
    struct stat status{};
    if (stat(path.c_str(), &status) == 0 && (status.st_mode & S_IROTH) != 0) {
      logger_.log(LogLevel::warning, "everybody on this machine can read the token file",
                  {{"file", path}});
    }
    read_lines(text, "auth.token_file", *entries);
    if (entries->empty()) {
      throw Error(ErrorCode::invalid_argument,
                  "auth.token_file: has no token; leave the option out to go without");
    }
  }
  if (!options_.token_variable.empty()) {
    if (const char* text = std::getenv(options_.token_variable.c_str())) {  // NOLINT
      read_lines(text, options_.token_variable, *entries);
    }
  }
  return entries;
}

void Authenticator::read_lines(std::string_view text, std::string_view where,
                               Entries& entries) const {
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(without_comment(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const std::string place = fmt::format("{}, line {}", where, number);
    Entry entry = read_line(line, place);
    const bool is_known = std::any_of(entries.begin(), entries.end(), [&](const Entry& other) {
      return other.secret == entry.secret && other.certificate_name == entry.certificate_name;
    });
    if (is_known) refuse_line(place, "this token or certificate is there already");
    entries.push_back(std::move(entry));
  }
}

Authenticator::Entry Authenticator::read_line(std::string_view line,
                                              const std::string& where) const {
  Entry entry;
  entry.name = cut_word(line);
  require_token_name(entry.name, where);
  entry.scopes = read_scopes(cut_word(line), where);
  if (entry.scopes == 0 || line.empty()) refuse_line(where, kExpectedLine);
  entry.limits = cut_limits(line, where);
  if (line.starts_with(kCertificatePrefix)) {
    entry.certificate_name = trim(line.substr(kCertificatePrefix.size()));
    if (entry.certificate_name.empty()) refuse_line(where, "cert: without a common name");
    return entry;
  }
  TokenLimits none;
  if (line.find_first_of(kSpaces) != std::string_view::npos || limit_named(line, none) != nullptr) {
    refuse_line(where, kExpectedLine);
  }
  if (line.size() > kMaxTokenBytes) refuse_line(where, "the secret is too long");
  if (line.size() < kShortSecretBytes) {
    logger_.log(LogLevel::warning, "a token is so short that it can be guessed",
                {{"name", entry.name}});
  }
  entry.secret = digest(line);
  return entry;
}

std::variant<Principal, Unauthorized, Forbidden> Authenticator::check(
    const Credentials& credentials, Scope scope) const {
  if (scope == Scope::open || !has_tokens()) {
    Principal principal;
    const std::string_view certified = credentials.certificate_name.value_or(std::string_view());
    if (!certified.empty()) principal.name = certified;
    return principal;
  }
  const auto entries = this->entries();
  std::optional<std::string_view> token;
  if (credentials.authorization) token = bearer_token(*credentials.authorization);
  const Digest shown = digest(token.value_or(std::string_view{}));

  const Entry* found = nullptr;
  for (const Entry& entry : *entries) {
    if (entry.secret) {
      const bool is_equal = CRYPTO_memcmp(entry.secret->data(), shown.data(), shown.size()) == 0;
      if (is_equal && token) found = &entry;
    } else if (!credentials.authorization && credentials.certificate_name &&
               entry.certificate_name == *credentials.certificate_name) {
      found = &entry;
    }
  }
  if (found == nullptr) {
    if (!credentials.authorization && credentials.certificate_name) {
      return Forbidden{.principal = {.name = std::string(*credentials.certificate_name)}};
    }
    return Unauthorized{.showed_token = credentials.authorization.has_value()};
  }
  Principal principal{.name = found->name, .limits = found->limits, .scopes = found->scopes};
  if (!principal.has(scope)) return Forbidden{.principal = std::move(principal)};
  return principal;
}

}  // namespace oncebox::server
