# SPDX-License-Identifier: Apache-2.0
# page.cmake : the report page, from web/ to the C file ESSCHER_ASSETS.
#
# Style and texts need nothing. Figures need npm, once, while the build is configured: it fetches what
# web/package-lock.json names, by its hashes, into the build folder; the source folder is never written to. After that a
# change in web/ is bundled again without a network. Where npm or the network is missing and ESSCHER_REPORT is AUTO, the
# program is built all the same, and `esscher report` says what is missing.
#
# A release has the bundle in web/bundle, with the hash of what it was made from: no npm is needed while that holds.
include(cmake/web_hash.cmake)

set(ESSCHER_ASSETS ${CMAKE_BINARY_DIR}/report_assets.c)
set(web ${CMAKE_SOURCE_DIR}/web)
set(page ${CMAKE_BINARY_DIR}/web)
file(GLOB_RECURSE web_sources CONFIGURE_DEPENDS ${web}/*.js ${web}/*.mjs ${web}/*.css ${web}/*.html)
list(FILTER web_sources EXCLUDE REGEX "node_modules|/web/bundle/")
set(figures_missing "")
set(bundled OFF)
if(EXISTS ${web}/bundle/made-from)
  file(STRINGS ${web}/bundle/made-from made_from)
  web_hash(${web} hash)
  if(made_from STREQUAL hash)
    set(bundled ON)
  else()
    message(STATUS "web/bundle was made from other files than those of web/, and is not used")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${web_sources} ${web}/bundle/made-from)
endif()

if(ESSCHER_REPORT STREQUAL OFF)
  set(figures_missing "ESSCHER_REPORT was OFF")
elseif(NOT bundled)
  find_program(NODE node)
  find_program(NPM npm)
  if(NOT NODE OR NOT NPM)
    set(figures_missing "there was no npm when it was built")
  else()
    file(SHA256 ${web}/package-lock.json lock)
    if(NOT EXISTS ${page}/fetched-${lock})
      message(STATUS "Fetching what figures are bundled from (npm ci)")
      file(COPY ${web}/package.json ${web}/package-lock.json ${web}/.npmrc DESTINATION ${page})
      execute_process(COMMAND ${NPM} ci --no-audit --no-fund --loglevel=error --prefer-offline --fetch-retries=1 WORKING_DIRECTORY ${page}
                      RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said TIMEOUT 300)
      if(failed)
        message(STATUS "npm ci failed:\n${said}")
        set(figures_missing "npm could not fetch its packages when it was built")
      else()
        file(TOUCH ${page}/fetched-${lock})
      endif()
    endif()
  endif()
  if(figures_missing AND ESSCHER_REPORT STREQUAL ON)
    message(FATAL_ERROR "ESSCHER_REPORT is ON, but ${figures_missing}")
  endif()
endif()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${web}/package-lock.json)

set(script "")
set(stills "")
set(notices "")
if(figures_missing)
  message(STATUS "Reports without figures: ${figures_missing}")
elseif(bundled)
  message(STATUS "Figures of reports: web/bundle")
  set(script ${web}/bundle/page.js)
  set(stills ${web}/bundle/stills.js)
  set(notices ${web}/bundle/notices.txt)
else()
  set(script ${page}/page.js)
  set(stills ${page}/stills.js)
  set(notices ${page}/notices.txt)
  add_custom_command(OUTPUT ${script} ${stills} ${notices}
                     COMMAND ${NODE} ${web}/build.mjs ${page} DEPENDS ${web_sources} VERBATIM
                     COMMENT "Bundling the report page")
  add_custom_target(page_bundle DEPENDS ${script} ${stills} ${notices}) # for packaging/dist.sh
endif()
add_custom_command(OUTPUT ${ESSCHER_ASSETS}
                   COMMAND ${CMAKE_COMMAND} -DOUT=${ESSCHER_ASSETS} -DWEB=${web} -DSCRIPT=${script} -DSTILLS=${stills}
                           -DNOTICES=${notices} -DMISSING=${figures_missing} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
                   DEPENDS ${web_sources} ${script} ${stills} ${notices} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
