#include "http/answers.hpp"

#include "oncebox/error.hpp"

namespace oncebox::server {

namespace {

/// Long enough for a full queue to empty, short enough that nobody waits for nothing.
constexpr const char* kRetryAfterSeconds = "1";

Response failed(wire::Problem problem, std::string cause, const Request& request) {
  const bool is_ours = problem.status >= 500;
  Response response = problem_response(std::move(problem), request);
  if (is_ours) response.cause = std::move(cause);
  return response;
}

}  // namespace

Response json_response(std::string body) {
  Response response;
  response.body = std::move(body);
  return response;
}

Response problem_response(wire::Problem problem, const Request& request) {
  problem.request_id = request.id;
  Response response;
  response.status = problem.status;
  response.content_type = "application/problem+json";
  response.body = wire::write_problem(problem);
  if (problem.status == 503) response.fields.add("Retry-After", kRetryAfterSeconds);
  return response;
}

wire::Problem no_memory_problem() {
  return {.status = 503,
          .code = "overloaded",
          .title = "Too much at once",
          .detail = std::string(kNoMemoryDetail)};
}

Response failure_response(std::exception_ptr failure, const Request& request) noexcept try {
  try {
    std::rethrow_exception(std::move(failure));
  } catch (const Error& error) {
    return failed(wire::problem_of(error), error.what(), request);
  } catch (const TokenRefused& refusal) {
    return refusal.response;
  } catch (const NotAllowed& refusal) {
    return problem_response(
        {.status = 403, .code = "forbidden", .title = "Not allowed", .detail = refusal.what()},
        request);
  } catch (const std::exception& error) {
    return failed(
        wire::problem_of(Error(ErrorCode::internal, "something went wrong; the log says what")),
        error.what(), request);
  } catch (...) {
    return failed(
        wire::problem_of(Error(ErrorCode::internal, "something went wrong; the log says what")),
        "an exception of an unknown type", request);
  }
} catch (const std::exception&) {
  return {.status = 500, .content_type = {}};  // needs no memory
}

}  // namespace oncebox::server
