#include "http/http_message.hpp"
