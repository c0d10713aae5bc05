#include "http/http_service.hpp"

#include <algorithm>
#include <array>

namespace oncebox::server {

namespace {

/// So many at a time are told that there are too many.
constexpr std::size_t kMaxRefusing = 64;

}  // namespace

HttpService::HttpService(const ServerOptions& options, const Router& router,
                         const Authenticator& authenticator, Logger& logger, HttpObserver& observer,
                         const Clock& clock)
    : limits_(options.limits),
      access_log_(options.access_log),
      gate_(options, router, authenticator),
      heads_(options),
      logger_(logger),
      observer_(observer),
      clock_(clock) {}

HttpService::Admission HttpService::admit_connection() noexcept {
  Admission admission = Admission::dropped;
  {
    const detail::Lock lock(mutex_);
    if (served_ < limits_.max_connections) {
      admission = Admission::served;
      ++served_;
    } else if (refused_ < kMaxRefusing) {
      admission = Admission::refused;
      ++refused_;
    }
  }
  if (admission == Admission::served) {
    observer_.on_connections(+1);
  } else {
    observer_.on_refused_connection();
  }
  return admission;
}

void HttpService::release_connection(Admission admission) noexcept {
  if (admission == Admission::dropped) return;
  if (admission == Admission::served) observer_.on_connections(-1);
  const detail::Lock lock(mutex_);
  if (admission == Admission::refused) {
    --refused_;
  } else if (--served_ == 0) {
    none_left_.notify_all();
  }
}

void HttpService::limit_wait(Duration within) {
  const detail::Lock lock(mutex_);
  give_up_at_ = std::min(give_up_at_, clock_.steady() + within);
  none_left_.notify_all();
}

bool HttpService::wait_for_connections() {
  const detail::Lock lock(mutex_);
  while (served_ != 0 && clock_.steady() < give_up_at_) {
    none_left_.wait_until(mutex_, give_up_at_);
  }
  return served_ == 0;
}

bool HttpService::hold_body(std::size_t bytes) noexcept {
  constexpr std::size_t kMaxHeldBytes = 256 << 20;
  const std::size_t limit = std::max(kMaxHeldBytes, 4 * limits_.max_body_bytes);
  if ((held_bodies_ += bytes) <= limit) return true;
  held_bodies_ -= bytes;
  return false;
}

void HttpService::record(const Request& request, const HttpObserver::Answered& answered,
                         const std::string& cause) noexcept {
  observer_.on_request(answered);
  if (!cause.empty()) {
    const std::array fields{LogField("request_id", request.id), LogField("route", answered.route),
                            LogField("cause", cause), LogField("store", request.store)};
    write(LogLevel::error, "request failed", fields, request);
  }
  if (access_log_ == AccessLog::off) return;
  if (access_log_ == AccessLog::errors && answered.status < 400) return;
  const bool has_route = answered.route != kNoRoute;
  const auto took = std::chrono::duration<double, std::milli>(answered.took).count();
  const std::array fields{
      LogField("method", answered.method),
      LogField(has_route ? "route" : "path", has_route ? answered.route : request.path),
      LogField("status", answered.status),
      LogField("ms", static_cast<double>(static_cast<std::int64_t>(took * 1000)) / 1000),
      LogField("bytes_in", answered.bytes_in),
      LogField("bytes_out", answered.bytes_out),
      LogField("peer", request.peer),
      LogField("request_id", request.id),
      LogField("principal", request.principal.name),
      LogField("store", request.store)};
  write(LogLevel::info, "request", fields, request);
}

void HttpService::write(LogLevel level, std::string_view text, std::span<const LogField> fields,
                        const Request& request) noexcept {
  if (!logger_.enabled(level)) return;
  // The last one says which store it was about, if it was about one.
  logger_.write(level, text, request.store.empty() ? fields.first(fields.size() - 1) : fields);
}

}  // namespace oncebox::server
