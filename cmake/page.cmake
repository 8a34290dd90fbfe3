# page.cmake : the report page, from web/ to the C file ESSCHER_ASSETS.
#
# Style and texts need nothing. Figures need npm, once, while the build is configured: it fetches what
# web/package-lock.json names, by its hashes, into the build folder; the source folder is never written to. After that a
# change in web/ is bundled again without a network. Where npm or the network is missing and ESSCHER_REPORT is AUTO, the
# program is built all the same, and `esscher report` says what it lacks.

set(ESSCHER_ASSETS ${CMAKE_BINARY_DIR}/report_assets.c)
set(web ${CMAKE_SOURCE_DIR}/web)
set(page ${CMAKE_BINARY_DIR}/web)
file(GLOB_RECURSE web_sources CONFIGURE_DEPENDS ${web}/*.js ${web}/*.mjs ${web}/*.css ${web}/*.html)
list(FILTER web_sources EXCLUDE REGEX node_modules)
set(figures_missing "")

if(ESSCHER_REPORT STREQUAL OFF)
  set(figures_missing "ESSCHER_REPORT was OFF")
else()
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
else()
  set(script ${page}/page.js)
  set(stills ${page}/stills.js)
  set(notices ${page}/notices.txt)
  add_custom_command(OUTPUT ${script} ${stills} ${notices}
                     COMMAND ${NODE} ${web}/build.mjs ${page} DEPENDS ${web_sources} VERBATIM
                     COMMENT "Bundling the report page")
endif()
add_custom_command(OUTPUT ${ESSCHER_ASSETS}
                   COMMAND ${CMAKE_COMMAND} -DOUT=${ESSCHER_ASSETS} -DWEB=${web} -DSCRIPT=${script} -DSTILLS=${stills}
                           -DNOTICES=${notices} -DMISSING=${figures_missing} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
                   DEPENDS ${web_sources} ${script} ${stills} ${notices} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
